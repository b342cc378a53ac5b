"""The policy: a transformers decoder sharded by FSDP2, fed prefix trees, asked only for the logits that carry loss.

Owns weights on this rank: loading, sharding, forward, gathering. Masters are float32; with `bfloat16` compute each layer is
cast for its matrix products and gradients are reduced in float32. Not owned: the objective (`loss`), the step (`step`), files of
versions (`version_directory`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Literal, cast

import torch
from safetensors import safe_open
from torch import Tensor, nn
from torch.distributed.fsdp import FSDPModule, MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import DTensor, distribute_tensor
from transformers import AutoModelForCausalLM
from transformers.utils.logging import disable_progress_bar

from workers.trainer import attention
from workers.trainer.adapter import AdapterShape, add_adapter, first_weights, halves, is_adapter, plain_name
from workers.trainer.errors import WrongModel
from workers.trainer.loss import token_logprobs
from workers.trainer.packing import Microbatch
from workers.trainer.ranks import Ranks

DType = Literal["float32", "bfloat16"]


class Policy:
    """One set of sharded weights.

    With `train_layers` N > 0 only the last N decoder layers learn; embeddings, head and the layers below are frozen, so
    backward ends there. With an `adapter` its weights learn and nothing else. `model` is the FSDP root (also an FSDPModule).
    Layers stay gathered from the first microbatch of a step to its last, which costs memory for one whole copy of the weights in
    the compute dtype and saves a gather per microbatch.
    """

    def __init__(
        self,
        directory: Path,
        ranks: Ranks,
        compute_dtype: DType,
        train_layers: int = 0,
        checkpoint_activations: bool = False,
        adapter: AdapterShape | None = None,
    ) -> None:
        attention.register()
        disable_progress_bar()
        self._ranks = ranks
        self.adapter = adapter
        model = AutoModelForCausalLM.from_pretrained(directory, dtype=torch.float32, attn_implementation=attention.NAME)
        model.to(ranks.device)
        if adapter is not None:
            add_adapter(model, adapter)
        elif train_layers:
            model.requires_grad_(False)
            model.model.layers[-train_layers:].requires_grad_(True)
        if checkpoint_activations:
            model.gradient_checkpointing_enable({"use_reentrant": False})
        precision = MixedPrecisionPolicy(param_dtype=getattr(torch, compute_dtype), reduce_dtype=torch.float32)
        for layer in model.model.layers if ranks.world_size > 1 else ():  # alone there is nothing to gather layer by layer
            fully_shard(layer, mesh=ranks.mesh, mp_policy=precision, reshard_after_forward=False)
        self.model: nn.Module = model
        fully_shard(model, mesh=ranks.mesh, mp_policy=precision, reshard_after_forward=False)
        model.train()
        if adapter is not None:
            self.begin_adapter(0)

    def parameters(self) -> Iterator[tuple[str, DTensor]]:
        """Names and float32 shards; a tied head appears once. Without an adapter the names are those of a version's file."""
        yield from cast(Iterator[tuple[str, DTensor]], self.model.named_parameters())

    def trainable(self) -> list[DTensor]:
        """The shards that a step changes."""
        return [parameter for _, parameter in self.parameters() if parameter.requires_grad]

    def logprobs(self, batch: Microbatch) -> tuple[Tensor, Tensor]:
        """Logprobs [M] of the trained tokens, and the entropy [P] where they were sampled (no gradient)."""
        return tree_logprobs(self.model, batch)

    @torch.no_grad()
    def hidden(self, batches: Sequence[Microbatch], before: Callable[[], None] = lambda: None) -> list[Tensor]:
        """Of each microbatch: the last hidden states [P, H] float32 where tokens were sampled, under the weights of now."""
        seen: list[Tensor] = []
        head = cast(nn.Module, self.model.lm_head)
        hook = head.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0][0].float().clone()))
        for batch in batches:
            before()
            self.logprobs(batch)
        hook.remove()
        self.release()
        return seen

    def call_between_layers(self, callback: Callable[[], None]) -> None:
        """Call it before each decoder layer of every forward and of every backward from now on."""
        for layer in cast(nn.ModuleList, self.model.model.layers):  # type: ignore[union-attr]
            layer.register_forward_pre_hook(lambda *_: callback())
            layer.register_full_backward_pre_hook(lambda *_: callback())

    def synchronise_gradients(self, last: bool) -> None:
        """Say whether the next backward is the last of its step: only then are gradients reduced and weights let go."""
        root = cast(FSDPModule, self.model)
        root.set_requires_gradient_sync(last)
        root.set_reshard_after_backward(last)
        root.set_is_last_backward(last)

    def release(self) -> None:
        """Let go of gathered weights after a forward without backward."""
        for module in self.model.modules():
            if isinstance(module, FSDPModule):
                module.reshard()

    @torch.no_grad()
    def load(self, weights: Path) -> None:
        """Overwrite the weights, not the adapter's, from a safetensors file; every rank reads its own shard.

        Raises: WrongModel when a name or shape differs.
        """
        with safe_open(weights, framework="pt") as file:
            parameters = {plain_name(name): value for name, value in self.parameters() if not is_adapter(name)}
            if parameters.keys() != set(file.keys()):
                raise WrongModel(f"{weights} and the model differ in {sorted(parameters.keys() ^ set(file.keys()))[:4]}")
            for name, parameter in parameters.items():
                self._overwrite(name, parameter, file.get_tensor(name))

    @torch.no_grad()
    def load_adapter(self, tensors: Mapping[str, Tensor]) -> None:
        """Overwrite the adapter's weights.

        Raises: WrongModel when a name or shape differs.
        """
        parameters = {name: value for name, value in self.parameters() if is_adapter(name)}
        if parameters.keys() != tensors.keys():
            raise WrongModel(f"the adapter and the model differ in {sorted(parameters.keys() ^ tensors.keys())[:4]}")
        for name, parameter in parameters.items():
            self._overwrite(name, parameter, tensors[name])

    def begin_adapter(self, seed: int) -> None:
        """Make the adapter new: it changes nothing yet."""
        shapes = {name: tuple(value.shape) for name, value in self.parameters() if is_adapter(name)}
        self.load_adapter(dict(first_weights(shapes, seed)))

    def _overwrite(self, name: str, parameter: DTensor, value: Tensor) -> None:
        full = value.to(device=self._ranks.device, dtype=parameter.dtype)
        if full.shape != parameter.shape:
            raise WrongModel(f"{name} is {tuple(full.shape)}, {tuple(parameter.shape)} in the model")
        parameter.copy_(distribute_tensor(full, parameter.device_mesh, parameter.placements, src_data_rank=None))

    @torch.no_grad()
    def gather(self, dtype: DType) -> Mapping[str, Tensor]:
        """All weights, whole, the adapter merged in, in `dtype`, on the CPU of the first rank; empty on the others. Collective.

        On one rank and in float32 they share memory with the masters: use them before the next step.
        """
        gathered, adapter, target = {}, self.gather_adapter(), getattr(torch, dtype)
        for name, parameter in self.parameters():
            if is_adapter(name):
                continue
            merged = halves(name)[0] in adapter
            full = cast(DTensor, parameter if merged else parameter.to(target)).full_tensor()
            if self._ranks.is_first:
                value = full.cpu() + self._delta(name, adapter) if merged else full.cpu()
                gathered[plain_name(name)] = value.to(target)
        return gathered

    @torch.no_grad()
    def gather_adapter(self) -> dict[str, Tensor]:
        """The adapter's weights, whole, float32, on the CPU of every rank; empty where there is none. Collective."""
        return {name: value.full_tensor().cpu().clone() for name, value in self.parameters() if is_adapter(name)}

    def _delta(self, name: str, adapter: Mapping[str, Tensor]) -> Tensor:
        """alpha / rank · B A."""
        assert self.adapter is not None
        down, up = halves(name)
        return (adapter[up] @ adapter[down]) * (self.adapter.alpha / self.adapter.rank)


def tree_logprobs(model: nn.Module, batch: Microbatch) -> tuple[Tensor, Tensor]:
    """As `Policy.logprobs`, by any transformers decoder with `attention.NAME` as its attention."""
    output = model(
        input_ids=batch.token_ids,
        position_ids=batch.positions,
        tree=batch.tree,
        logits_to_keep=batch.predictors,
        use_cache=False,
    )
    return token_logprobs(output.logits[0], batch.temperatures, batch.predictor, batch.targets)

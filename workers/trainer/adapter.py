"""LoRA (arXiv 2106.09685) by `peft`, beside full weights: added to the model, merged when published, saved beside a version.

Owns an adapter's shape, its beginning, its names and its files (`adapter/` in a version directory, as `peft` reads them). Needs no
torch but to make or read one. Not owned: sharding and gathering (`policy`), which version an adapter belongs to (`learner`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from workers.trainer.durable import sync

if TYPE_CHECKING:
    from torch import Tensor, nn

FOLDER: Final = "adapter"
WEIGHTS: Final = "adapter_model.safetensors"
_BASE: Final = ".base_layer"
_SLOT: Final = ".default"


class AdapterShape(msgspec.Struct, frozen=True):
    """ΔW = alpha / rank · B A for the linear layers named in `targets`, of the last `num_layers` decoder layers (0: of all)."""

    rank: int
    alpha: float
    targets: tuple[str, ...]
    num_layers: int = 0

    @property
    def name(self) -> str:
        """For a directory of its checkpoints: another shape cannot read them."""
        return f"lora-r{self.rank}-a{self.alpha:g}-l{self.num_layers}-{'.'.join(self.targets)}"


class AdapterRecord(msgspec.Struct, frozen=True):
    """In a version's manifest: its weights are those of the version `base`, with the adapter merged in.

    `digests` are of the tensors in the adapter's own file."""

    base: str
    shape: AdapterShape
    digests: dict[str, str] = {}


@dataclass(slots=True, frozen=True)
class Adapter:
    """An adapter as published: `tensors` by the policy's names, float32."""

    record: AdapterRecord
    tensors: Mapping[str, Tensor]


def add_adapter(model: nn.Module, shape: AdapterShape) -> None:
    """Put an adapter into every target; nothing else stays trainable. Its weights are not set: `first_weights`."""
    from peft import LoraConfig, inject_adapter_in_model

    count = len(model.model.layers)  # type: ignore[union-attr, arg-type]
    layers = list(range(count - shape.num_layers, count)) if shape.num_layers else None
    config = LoraConfig(r=shape.rank, lora_alpha=shape.alpha, target_modules=list(shape.targets), layers_to_transform=layers)  # type: ignore[arg-type]
    inject_adapter_in_model(config, model)


def first_weights(shapes: Mapping[str, tuple[int, ...]], seed: int) -> Iterator[tuple[str, Tensor]]:
    """Whole tensors of a new adapter, the same on every rank: A as `peft` draws it, B zero, so that it changes nothing yet."""
    import torch

    random = torch.Generator().manual_seed(seed)
    for name, shape in shapes.items():
        bound = 1 / math.sqrt(shape[-1]) if ".lora_A." in name else 0.0
        yield name, (torch.rand(shape, generator=random) * 2 - 1) * bound


def is_adapter(name: str) -> bool:
    """Whether a parameter belongs to an adapter."""
    return ".lora_A." in name or ".lora_B." in name


def plain_name(name: str) -> str:
    """A base weight's name as in a version's file."""
    return name.replace(_BASE, "")


def halves(name: str) -> tuple[str, str]:
    """The names of A and B for a base weight's name."""
    module = plain_name(name).removesuffix(".weight")
    return f"{module}.lora_A{_SLOT}.weight", f"{module}.lora_B{_SLOT}.weight"


def write_adapter(version: Path, adapter: Adapter) -> None:
    """Save the adapter in the version's directory, so that `peft.PeftModel.from_pretrained(base, version / "adapter")` reads it."""
    from peft import LoraConfig
    from safetensors.torch import save_file

    shape, directory = adapter.record.shape, version / FOLDER
    directory.mkdir()
    save_file({_outside(name): tensor for name, tensor in adapter.tensors.items()}, directory / WEIGHTS, {"format": "pt"})
    layers = sorted({int(name.split(".layers.")[1].split(".")[0]) for name in adapter.tensors})
    config = LoraConfig(
        r=shape.rank,
        lora_alpha=shape.alpha,  # type: ignore[arg-type]
        target_modules=list(shape.targets),
        layers_to_transform=layers,
        base_model_name_or_path=adapter.record.base,
        task_type="CAUSAL_LM",
        inference_mode=True,
    )
    config.save_pretrained(str(directory))
    for path in (*directory.iterdir(), directory):
        sync(path)


def read_adapter(version: Path) -> dict[str, Tensor]:
    """The tensors of a version's adapter, by the policy's names."""
    from safetensors.torch import load_file

    return {_inside(name): tensor for name, tensor in load_file(version / FOLDER / WEIGHTS).items()}


def _outside(name: str) -> str:
    return f"base_model.model.{name.replace(_SLOT, '')}"


def _inside(name: str) -> str:
    return name.removeprefix("base_model.model.").removesuffix(".weight") + f"{_SLOT}.weight"

"""One training step: rows in, changed weights out.

Owns microbatches, accumulation, clipping and the optimizer. Not owned: what is trained on (`selection`, `rows`), the formula
(`loss`). Place in the path: step 3, between the stored batch manifest and the published version.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor
from torch.distributed.tensor import DTensor

from atdp import faults
from workers.trainer.errors import NonFiniteStep
from workers.trainer.loss import decoupled_ppo
from workers.trainer.objective import Objective
from workers.trainer.packing import Microbatch, group, pack, shard, sort_rows
from workers.trainer.policy import Policy
from workers.trainer.ranks import Ranks
from workers.trainer.rows import Row
from workers.trainer.statistics import StepStatistics


@dataclass(slots=True, frozen=True)
class Schedule:
    """Learning rate after a linear warm-up over `warmup_steps` updates, and the bound on the gradient's norm."""

    learning_rate: float
    warmup_steps: int
    max_grad_norm: float

    def rate(self, updates_done: int) -> float:
        """The rate of the next update."""
        return self.learning_rate * min(1.0, (updates_done + 1) / max(self.warmup_steps, 1))


def make_optimizer(policy: Policy, learning_rate: float, weight_decay: float) -> torch.optim.AdamW:
    """AdamW over this rank's shards, float32, in one fused pass."""
    return torch.optim.AdamW(policy.trainable(), lr=learning_rate, weight_decay=weight_decay, betas=(0.9, 0.95), fused=True)


def microbatches(rows: Sequence[Row], ranks: Ranks, max_nodes: int) -> list[Microbatch]:
    """This rank's share of `rows`, packed; the same number on every rank, as each is a collective.

    A rank with fewer repeats a row at weight zero.
    """
    ordered = sort_rows(rows)
    shares = [group(part, max_nodes) for part in shard(ordered, ranks.world_size)]
    mine = shares[ranks.rank]
    idle = [replace(ordered[0], weight=0.0)]
    missing = max(len(share) for share in shares) - len(mine)
    return [pack(part).to(ranks.device) for part in mine + [idle] * missing]


@torch.no_grad()
def frozen(
    policy: Policy, batches: Sequence[Microbatch], before: Callable[[], None] = lambda: None
) -> list[tuple[Microbatch, Tensor, Tensor]]:
    """Each microbatch with its logprobs [M] and entropy [P] under the weights of now."""
    found = []
    for batch in batches:
        before()
        found.append((batch, *policy.logprobs(batch)))
    policy.release()
    return found


def frozen_logprobs(policy: Policy, batches: Sequence[Microbatch], before: Callable[[], None] = lambda: None) -> list[Tensor]:
    """Logprobs [M] of each microbatch under the weights of now: proximal ones, or a reference's."""
    return [logprobs for _, logprobs, _ in frozen(policy, batches, before)]


def train(
    policy: Policy,
    optimizer: torch.optim.Optimizer,
    minibatches: Sequence[Sequence[Microbatch]],
    objective: Objective,
    schedule: Schedule,
    updates_done: int,
    ranks: Ranks,
    reference: Policy | None = None,
    before: Callable[[], None] = lambda: None,
) -> tuple[StepStatistics, float]:
    """Take one optimizer update for each minibatch; give this rank's statistics and the last gradient norm.

    With one minibatch the proximal policy is the policy itself, so its logprobs are those of the first forward, detached:
    exact, and a forward cheaper. With several they are computed before the first update. `before` is called before each microbatch
    goes through a model: compute that follows load waits there.

    Raises: NonFiniteStep, before the optimizer has changed anything in that update.
    """
    statistics, norm = StepStatistics(), 0.0
    proximal = [frozen_logprobs(policy, batches, before) for batches in minibatches] if len(minibatches) > 1 else None
    for index, batches in enumerate(minibatches):
        anchors = frozen_logprobs(reference, batches, before) if reference is not None else None
        for place, batch in enumerate(batches):
            before()
            policy.synchronise_gradients(last=place == len(batches) - 1)
            logprobs, entropy = policy.logprobs(batch)
            old = logprobs.detach() if proximal is None else proximal[index][place]
            terms = decoupled_ppo(
                logprobs,
                old,
                batch.behaviour,
                batch.advantages,
                batch.weights,
                objective,
                None if anchors is None else anchors[place],
            )
            torch.autograd.backward(
                terms.loss * ranks.world_size
            )  # FSDP averages over ranks; the weights already sum over the batch
            statistics.add(batch, old, entropy, terms)
            statistics.compare(batch, old)
        faults.point("trainer.mid_step")
        norm = _update(policy, optimizer, schedule, updates_done + index)
    return statistics, norm


def _update(policy: Policy, optimizer: torch.optim.Optimizer, schedule: Schedule, updates_done: int) -> float:
    total = torch.nn.utils.clip_grad_norm_(policy.trainable(), schedule.max_grad_norm)
    norm = float(total.full_tensor() if isinstance(total, DTensor) else total)
    if not math.isfinite(norm):
        optimizer.zero_grad()
        raise NonFiniteStep(f"the gradient norm is {norm}; the update was not taken")
    for parameters in optimizer.param_groups:
        parameters["lr"] = schedule.rate(updates_done)
    optimizer.step()
    optimizer.zero_grad()
    return norm

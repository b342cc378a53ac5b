"""A batch: the selected trajectories with their advantages, and what the trainer's state is after them.

Owns the step from a lease to numbers; pure, and the same on every rank. Place in the path: step 3, between lease and rows.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from atdp.samples import Lease, TrainSample
from workers.trainer.advantage import advantages
from workers.trainer.rows import Row, build_rows
from workers.trainer.selection import Head, select
from workers.trainer.settings import Settings
from workers.trainer.version_directory import TrainerState


@dataclass(slots=True, frozen=True)
class Batch:
    """`advantages[i]` belongs to `samples[i]`; `skipped` maps the lease's other trajectories to the reason; `left_out`
    counts those and what the data proxy left out; `state` is the trainer's after training on it."""

    samples: list[TrainSample]
    advantages: list[float]
    skipped: dict[str, str]
    left_out: dict[str, int]
    staleness: float
    state: TrainerState
    head: Head

    def summary(self) -> dict[str, float]:
        """What metrics.jsonl says about it, before a step."""
        rewards = [sample.reward for sample in self.samples]
        return {
            "num_trajectories": float(len(self.samples)),
            "num_left_out": float(len(self.skipped)),
            "reward_mean": float(np.mean(rewards)),
            "reward_std": float(np.std(rewards)),
            "advantage_mean": float(np.mean(self.advantages)),
            "advantage_std": float(np.std(self.advantages)),
            "staleness_mean": self.staleness,
        }


def make_batch(lease: Lease, head: Head, state: TrainerState, settings: Settings) -> Batch:
    """Select from the lease and centre the rewards; may end up empty."""
    selection = select(lease.samples, head, settings.max_staleness, settings.max_reuse)
    values, baselines = advantages(
        [f"{sample.tenant}/{sample.agent}" for sample in selection.samples],
        [sample.reward for sample in selection.samples],
        state.baselines,
        settings.baseline_decay,
        settings.scale_floor,
    )
    return Batch(
        samples=selection.samples,
        advantages=values,
        skipped=selection.skipped,
        left_out=dict(Counter(lease.skipped) + Counter(selection.skipped.values())),
        staleness=selection.staleness,
        state=TrainerState(state.steps + 1, state.updates + min(settings.updates_per_batch, len(values)), baselines),
        head=head,
    )


def split(batch: Batch, num_updates: int, seed: int) -> Iterator[list[Row]]:
    """The rows of each update: trajectories dealt out in an order that depends on seed and step alone."""
    order = list(range(len(batch.samples)))
    if num_updates > 1:
        random.Random(f"{seed}/{batch.state.steps}").shuffle(order)
    for update in range(min(num_updates, len(order))):
        mine = order[update::num_updates]
        yield build_rows([batch.samples[i] for i in mine], [batch.advantages[i] for i in mine], batch.head.index)

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
from workers.trainer.comparison import among_siblings, apply, compare, contender
from workers.trainer.credit import PerTurn, immediate, returns
from workers.trainer.rows import Episode, Row, build_rows, credited_masks
from workers.trainer.selection import Head, select
from workers.trainer.settings import Settings
from workers.trainer.version_directory import TrainerState


@dataclass(slots=True, frozen=True)
class Batch:
    """`advantages[i]` are those of `samples[i]`, by turn, and for an agent with `gae` `episodes[i]` is what a value head makes its
    own of; `skipped` maps the lease's other trajectories to the reason; `left_out` counts those and what the data proxy left out;
    `state` is the trainer's after training on it."""

    samples: list[TrainSample]
    advantages: list[PerTurn]
    episodes: list[Episode | None]
    skipped: dict[str, str]
    left_out: dict[str, int]
    staleness: float
    state: TrainerState
    head: Head

    def summary(self) -> dict[str, float]:
        """What metrics.jsonl says about it, before a step."""
        rewards = [sample.reward for sample in self.samples]
        advantages = [value for advantage in self.advantages for value in advantage.values()]
        return {
            "num_trajectories": float(len(self.samples)),
            "num_left_out": float(len(self.skipped)),
            "reward_mean": float(np.mean(rewards)),
            "reward_std": float(np.std(rewards)),
            "advantage_mean": float(np.mean(advantages)),
            "advantage_std": float(np.std(advantages)),
            "staleness_mean": self.staleness,
            "altered_fraction": _altered(self.samples),
        }


def make_batch(lease: Lease, head: Head, state: TrainerState, settings: Settings) -> Batch:
    """Select from the lease, give each turn its return and compare it; may end up empty."""
    selection = select(lease.samples, head, settings.max_staleness, settings.max_reuse)
    samples, values, skipped = [], [], dict(selection.skipped)
    for sample in selection.samples:
        learning = settings.learning_of(sample.tenant, sample.agent)
        found = returns(sample, learning.credit, learning.discount)
        if any(mask.any() for mask in credited_masks(sample, found)):
            samples.append(sample)
            values.append(found)
        else:
            skipped[sample.trajectory_id] = "no_credit"
    contenders = [
        contender(sample, found, settings.learning_of(sample.tenant, sample.agent).advantage)
        for sample, found in zip(samples, values, strict=True)
    ]
    comparisons, baselines = compare(contenders, state.baselines, settings.baseline_decay, settings.scale_floor)
    return Batch(
        samples=samples,
        advantages=[
            among_siblings(apply(comparison, found), found, one, settings.scale_floor)
            for comparison, found, one in zip(comparisons, values, contenders, strict=True)
        ],
        episodes=[_episode(sample, settings) for sample in samples],
        skipped=skipped,
        left_out=dict(Counter(lease.skipped) + Counter(skipped.values())),
        staleness=selection.staleness,
        state=TrainerState(state.steps + 1, state.updates + min(settings.updates_per_batch, len(samples)), baselines),
        head=head,
    )


def _episode(sample: TrainSample, settings: Settings) -> Episode | None:
    learning = settings.learning_of(sample.tenant, sample.agent)
    return Episode(*immediate(sample, learning.credit), learning.discount) if learning.advantage == "gae" else None


def _altered(samples: list[TrainSample]) -> float:
    """The share of sampled tokens that redaction overwrote."""
    sequences = [sequence for sample in samples for sequence in sample.sequences]
    sampled = [sequence.version_indices() >= 0 for sequence in sequences]
    altered = sum(int(np.frombuffer(s.altered, np.uint8)[own].sum()) for s, own in zip(sequences, sampled, strict=True))
    return altered / max(sum(int(own.sum()) for own in sampled), 1)


def split(batch: Batch, num_updates: int, seed: int) -> Iterator[list[Row]]:
    """The rows of each update: trajectories dealt out in an order that depends on seed and step alone."""
    order = list(range(len(batch.samples)))
    if num_updates > 1:
        random.Random(f"{seed}/{batch.state.steps}").shuffle(order)
    for update in range(min(num_updates, len(order))):
        mine = order[update::num_updates]
        samples, advantages = [batch.samples[i] for i in mine], [batch.advantages[i] for i in mine]
        yield build_rows(samples, advantages, batch.head.index, [batch.episodes[i] for i in mine])

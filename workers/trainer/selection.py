"""Selection: which leased trajectories enter the batch, and why the others don't.

Owns the checks at consumption: freshness against the weights that will be trained, tokens that are trainable at all, reuse.
The data proxy checked when it lent; time has passed since, and a rollback may have moved the head. Place in the path: step 3,
after the lease.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from atdp.errors import InvalidEvent
from atdp.samples import TrainSample
from atdp.versions import version_index
from workers.trainer.rows import unique_masks
from workers.trainer.version_directory import VersionManifest


@dataclass(slots=True, frozen=True)
class Head:
    """The version whose weights the trainer holds: `index`, the indices of it and its known ancestors, and how often
    these learned from each trajectory."""

    index: int
    line: frozenset[int]
    uses: Mapping[str, int]


@dataclass(slots=True, frozen=True)
class Selection:
    """`samples` to train on, `skipped` maps the other trajectories to the reason, `staleness` the mean over trained tokens."""

    samples: list[TrainSample]
    skipped: dict[str, str]
    staleness: float


def head_of(line: Sequence[VersionManifest]) -> Head:
    """The head, from the manifests of its line, newest first."""
    indices = [version_index(manifest.version) for manifest in line]
    uses = Counter(trajectory for manifest in line for trajectory in manifest.trajectories)
    return Head(indices[0], frozenset(indices), uses)


def select(samples: Iterable[TrainSample], head: Head, max_staleness: int, max_reuse: int) -> Selection:
    """Split a lease into what is trained on and what is not."""
    chosen, skipped, ages = [], {}, []
    for sample in samples:
        reason, staleness = _judge(sample, head, max_staleness, max_reuse)
        if reason is None:
            chosen.append(sample)
            ages.append(staleness)
        else:
            skipped[sample.trajectory_id] = reason
    joined = np.concatenate(ages) if ages else np.zeros(1)
    return Selection(chosen, skipped, float(joined.mean()))


def _judge(
    sample: TrainSample, head: Head, max_staleness: int, max_reuse: int
) -> tuple[str | None, np.ndarray[tuple[int], np.dtype[np.int32]]]:
    """The reason against a sample, or None, and the staleness of its trained tokens."""
    none = np.empty(0, np.int32)
    try:
        for sequence in sample.sequences:
            sequence.validate()
    except InvalidEvent:
        return "invalid", none
    if sample.temperature <= 0:
        return "temperature", none
    if head.uses.get(sample.trajectory_id, 0) >= max_reuse:
        return "reused", none
    pairs = zip(sample.sequences, unique_masks(sample), strict=True)
    versions = np.concatenate([none, *(sequence.version_indices()[mask] for sequence, mask in pairs)])
    if not len(versions):
        return "no_trained_token", none
    staleness = head.index - versions
    if staleness.max() > max_staleness:
        return "stale", none
    if not head.line.issuperset(versions.tolist()):
        return "other_branch", none  # sampled by weights that were rolled back
    return None, staleness

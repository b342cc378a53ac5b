"""A dry run: the batch that the next step would take, what it would leave out and why, and the numbers of its first forward.

Leases nothing, publishes nothing, writes nothing. Owns the plan and how it is shown; the batch is made by the code that a step uses
(`batch`, `step`). Place in the path: before step 3.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import msgspec
import numpy as np

from atdp.samples import Lease, TrainSample
from dataproxy.client import NotFound
from workers.trainer.batch import Batch, make_batch, split
from workers.trainer.coordinator import request_of
from workers.trainer.data_proxy import DataProxy
from workers.trainer.loss import decoupled_ppo
from workers.trainer.paths import TrainerPaths
from workers.trainer.policy import Policy
from workers.trainer.ranks import Ranks
from workers.trainer.rows import credited_masks
from workers.trainer.selection import head_of
from workers.trainer.settings import Settings
from workers.trainer.statistics import StepStatistics, summary
from workers.trainer.step import frozen, microbatches
from workers.trainer.version_directory import BASE_VERSION, lineage


class Planned(msgspec.Struct, frozen=True):
    """A trajectory of the batch: tokens in all and trained on, the version of its oldest trained token, its advantages by turn."""

    trajectory_id: str
    agent: str
    reward: float
    num_turns: int
    num_tokens: int
    num_trained: int
    oldest_version: int
    advantages: list[float]


class Plan(msgspec.Struct, frozen=True):
    """What a step would do now. `enough` says whether it would be taken; `skipped` maps trajectories to the trainer's reason,
    `left_out` counts all reasons, the data proxy's too."""

    head: str
    wanted: int
    enough: bool
    batch: list[Planned]
    skipped: dict[str, str]
    left_out: dict[str, int]
    numbers: dict[str, float]


def dry_run(settings: Settings, paths: TrainerPaths, data_proxy: DataProxy, ranks: Ranks, forward: bool) -> Plan:
    """Plan the next step on what is ready now; `forward` also runs the model once over it.

    Raises: VersionUnavailable where what serves is not on this disk; DataProxyClientError.
    """
    try:
        head = data_proxy.serving_version().version
    except NotFound:
        head = BASE_VERSION
    line = lineage(paths.versions, head)
    lease = data_proxy.lease(msgspec.structs.replace(request_of(settings, head), preview=True))
    batch = make_batch(lease, head_of(line), line[0].state, settings)
    numbers: dict[str, float] = {}
    if batch.samples:
        numbers = batch.summary() | _cost(batch, settings, ranks)
        if forward:
            numbers |= _first_numbers(batch, Policy(paths.versions / head, ranks, settings.compute_dtype), settings, ranks)
    return _plan(head, lease, batch, numbers, settings)


def describe(plan: Plan) -> Iterator[str]:
    """The plan as lines for a person."""
    ready = len(plan.batch) + len(plan.skipped)
    yield f"head {plan.head}; a batch is {plan.wanted} trajectories, {ready} are ready" + ("" if plan.enough else ": no step yet")
    for item in plan.batch:
        advantages = " ".join(f"{value:+.3f}" for value in item.advantages)
        yield (
            f"  {item.trajectory_id}  {item.agent}  reward {item.reward:g}  {item.num_turns} turns  "
            f"{item.num_trained} of {item.num_tokens} tokens  from v{item.oldest_version:06d}  advantage {advantages}"
        )
    for trajectory_id, reason in plan.skipped.items():
        yield f"  {trajectory_id}  left out: {reason}"
    yield "left out: " + (", ".join(f"{count} {reason}" for reason, count in sorted(plan.left_out.items())) or "none")
    yield from (f"  {name:<22} {value:.6g}" for name, value in plan.numbers.items())


def _plan(head: str, lease: Lease, batch: Batch, numbers: dict[str, float], settings: Settings) -> Plan:
    return Plan(
        head=head,
        wanted=settings.batch_trajectories,
        enough=len(lease.samples) >= settings.batch_trajectories,
        batch=[_planned(batch, place, sample) for place, sample in enumerate(batch.samples)],
        skipped=batch.skipped,
        left_out=batch.left_out,
        numbers=numbers,
    )


def _planned(batch: Batch, place: int, sample: TrainSample) -> Planned:
    masks = credited_masks(sample, batch.advantages[place])
    versions = [chain.version_indices()[mask] for chain, mask in zip(sample.sequences, masks, strict=True)]
    return Planned(
        trajectory_id=sample.trajectory_id,
        agent=f"{sample.tenant}/{sample.agent}",
        reward=sample.reward,
        num_turns=len({(turn.event_id, turn.choice) for chain in sample.sequences for turn in chain.turns}),
        num_tokens=sum(len(chain) for chain in sample.sequences),
        num_trained=sum(int(mask.sum()) for mask in masks),
        oldest_version=int(np.concatenate(versions).min()),
        advantages=batch.advantages[place].values(),
    )


def _cost(batch: Batch, settings: Settings, ranks: Ranks) -> dict[str, float]:
    """What goes through the model, and how much of it packing and joining save against a row for each call."""
    rows = [row for update in split(batch, settings.updates_per_batch, settings.seed) for row in update]
    computed = sum(part.token_ids.shape[1] for part in microbatches(rows, ranks, settings.microbatch_tokens))
    turns = [turn for sample in batch.samples for chain in sample.sequences for turn in chain.turns]
    return {
        "num_rows": float(len(rows)),
        "num_computed": float(computed),
        "num_tokens_by_call": float(sum(turn.end for turn in turns)),
    }


def _first_numbers(batch: Batch, policy: Policy, settings: Settings, ranks: Ranks) -> dict[str, float]:
    """The step's statistics before it changes anything."""
    statistics, objective = StepStatistics(), replace(settings.objective(), kl_coef=0.0)
    rows = [row for update in split(batch, settings.updates_per_batch, settings.seed) for row in update]
    batches = microbatches(rows, ranks, settings.microbatch_tokens)
    for part, logprobs, entropy in frozen(policy, batches):
        terms = decoupled_ppo(logprobs, logprobs, part.behaviour, part.advantages, part.weights, objective)
        statistics.add(part, logprobs, entropy, terms)
        statistics.compare(part, logprobs)
    return summary(statistics)

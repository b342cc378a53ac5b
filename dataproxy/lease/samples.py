"""From trajectories to training samples: tokens, rewards as seen now, and only what may still be trained on."""

from collections.abc import Sequence
from dataclasses import replace

from sqlalchemy import Connection

from atdp.rewards import Reward, effective_reward
from atdp.samples import TrainSample
from dataproxy.assemble.sequences import Segment, build_sequences
from dataproxy.lease.candidates import Candidate
from dataproxy.store.rewards import rewards_of
from dataproxy.store.segments import StoredSegment, segments_of


def build_samples(
    connection: Connection, candidates: Sequence[Candidate], oldest_version: int
) -> tuple[list[TrainSample], dict[str, int]]:
    """A sample for each candidate that has something to train on; the others are counted by reason."""
    samples: list[TrainSample] = []
    skipped: dict[str, int] = {}
    for tenant in {candidate.tenant for candidate in candidates}:
        mine = [candidate for candidate in candidates if candidate.tenant == tenant]
        ids = [candidate.trajectory_id for candidate in mine]
        segments, rewards = segments_of(connection, tenant, ids), rewards_of(connection, tenant, ids)
        for candidate in mine:
            sample = _sample(candidate, segments[candidate.trajectory_id], rewards.get(candidate.trajectory_id, []), oldest_version)
            if isinstance(sample, str):
                skipped[sample] = skipped.get(sample, 0) + 1
            else:
                samples.append(sample)
    order = {(c.tenant, c.trajectory_id): i for i, c in enumerate(candidates)}
    samples.sort(key=lambda sample: order[sample.tenant, sample.trajectory_id])
    return samples, skipped


def _sample(candidate: Candidate, stored: list[StoredSegment], rewards: list[Reward], oldest_version: int) -> TrainSample | str:
    reward = effective_reward(rewards)
    if reward is None:
        return "no_reward"
    trainable = [item for item in stored if item.segment.trainable]
    fresh = [item for item in trainable if item.oldest_version >= oldest_version]
    if not fresh:
        return "stale" if trainable else "not_eligible"
    temperature = fresh[0].temperature
    kept = {item.segment.key for item in fresh if item.temperature == temperature}
    sequences = build_sequences([_only(item.segment, kept) for item in stored], _turn_rewards(rewards))
    if not any(sequence.mask().any() for sequence in sequences):
        return "nothing_to_train"
    return TrainSample(
        trajectory_id=candidate.trajectory_id,
        tenant=candidate.tenant,
        agent=candidate.agent,
        session_id=candidate.session_id,
        temperature=temperature,
        reward=reward,
        rewards=rewards,
        sequences=sequences,
        tokenizer=fresh[0].tokenizer,
    )


def _only(segment: Segment, kept: set[tuple[str, int]]) -> Segment:
    return replace(segment, trainable=segment.key in kept)


def _turn_rewards(rewards: list[Reward]) -> dict[str, float]:
    """Event → the effective reward of those that target it."""
    events = {reward.target_id for reward in rewards if reward.target_kind == "event"}
    by_event = {event: effective_reward(r for r in rewards if r.target_id == event) for event in events}
    return {event: value for event, value in by_event.items() if value is not None}

"""From trajectories to training samples: tokens, rewards as seen now, and only what may still be trained on."""

from collections import Counter
from collections.abc import Mapping, Sequence, Set
from dataclasses import replace

from sqlalchemy import Connection

from atdp.rewards import Reward, effective_reward, turn_id
from atdp.samples import TrainSample
from dataproxy.admit import VAULT_ONLY
from dataproxy.assemble.sequences import Choice, build_sequences
from dataproxy.lease.candidates import Candidate
from dataproxy.store.judgements import abstained_events
from dataproxy.store.rewards import rewards_of
from dataproxy.store.segments import StoredSegment, segments_of
from dataproxy.vault.lend import Lending


def build_samples(
    connection: Connection, candidates: Sequence[Candidate], oldest_version: int, vault: Lending | None = None
) -> tuple[list[TrainSample], dict[str, int]]:
    """A sample for each candidate that has something to train on; the others are counted by reason.

    What ``vault`` may lend comes along sealed.
    """
    samples: list[TrainSample] = []
    skipped: dict[str, int] = {}
    for tenant in {candidate.tenant for candidate in candidates}:
        mine = [candidate for candidate in candidates if candidate.tenant == tenant]
        ids = [candidate.trajectory_id for candidate in mine]
        segments, rewards = segments_of(connection, tenant, ids), rewards_of(connection, tenant, ids)
        abstained = abstained_events(connection, tenant, ids)
        sealed = vault.sealed(connection, tenant, ids) if vault is not None else {}
        for candidate in mine:
            given = rewards.get(candidate.trajectory_id, [])
            stored = _with_sealed(segments[candidate.trajectory_id], sealed.get(candidate.trajectory_id, {}))
            sample = _sample(candidate, stored, given, oldest_version, abstained)
            if isinstance(sample, str):
                skipped[sample] = skipped.get(sample, 0) + 1
            else:
                samples.append(sample)
    order = {(c.tenant, c.trajectory_id): i for i, c in enumerate(candidates)}
    samples.sort(key=lambda sample: order[sample.tenant, sample.trajectory_id])
    return samples, skipped


def _with_sealed(stored: list[StoredSegment], sealed: Mapping[Choice, bytes]) -> list[StoredSegment]:
    if not sealed:
        return stored
    return [replace(item, segment=replace(item.segment, sealed=sealed.get(item.segment.key, b""))) for item in stored]


def _sample(
    candidate: Candidate, stored: list[StoredSegment], rewards: list[Reward], oldest_version: int, abstained: Set[str]
) -> TrainSample | str:
    reward = effective_reward(rewards)
    if reward is None:
        return "no_reward"
    against = against_of(stored, rewards, oldest_version, abstained)
    fresh = [item for item in stored if against[item.segment.key] is None]
    if not fresh:
        return max(Counter(filter(None, against.values())).items(), key=_most_telling)[0] if against else "not_eligible"
    marked = [replace(item.segment, trainable=against[item.segment.key] is None) for item in stored]
    sequences = build_sequences(marked, _own_rewards(stored, rewards))
    if not any(sequence.mask().any() for sequence in sequences):
        return "nothing_to_train"
    return TrainSample(
        trajectory_id=candidate.trajectory_id,
        tenant=candidate.tenant,
        agent=candidate.agent,
        session_id=candidate.session_id,
        group=candidate.group,
        temperature=fresh[0].temperature,
        reward=reward,
        rewards=rewards,
        sequences=sequences,
        tokenizer=fresh[0].tokenizer,
        left_out=dict(Counter(reason for reason in against.values() if reason is not None)),
    )


def against_of(
    stored: Sequence[StoredSegment], rewards: Sequence[Reward], oldest_version: int, abstained: Set[str]
) -> dict[Choice, str | None]:
    """Choice of one trajectory → why it is context only; None: it trains. Those that train were sampled at one temperature."""
    own = _own_rewards(stored, rewards)
    against = {item.segment.key: _against(item, oldest_version, abstained, own) for item in stored}
    fresh = [item for item in stored if against[item.segment.key] is None]
    return against | {item.segment.key: "other_temperature" for item in fresh if item.temperature != fresh[0].temperature}


def _against(item: StoredSegment, oldest_version: int, abstained: Set[str], own: dict[Choice, float]) -> str | None:
    """Why a choice is context only; None: it trains."""
    if not item.segment.trainable:
        return item.reason
    if item.reason == VAULT_ONLY and not item.segment.sealed:
        return "altered"
    if item.oldest_version < oldest_version:
        return "stale"
    if item.segment.event_id in abstained and item.segment.key not in own:
        return "judge_abstained"
    return None


def _most_telling(reason: tuple[str, int]) -> tuple[bool, int]:
    """Of a trajectory without anything to train on: what stands against its eligible choices, then the commonest reason."""
    return reason[0] in ("stale", "judge_abstained"), reason[1]


def _own_rewards(stored: Sequence[StoredSegment], rewards: Sequence[Reward]) -> dict[Choice, float]:
    """Choice → the effective reward of those that target it, or the call that it is a choice of."""
    own: dict[Choice, float] = {}
    targeted = {reward.target_id for reward in rewards if reward.target_kind in ("event", "turn")}
    for item in stored:
        event_id, choice = item.segment.key
        names = targeted & {event_id, turn_id(event_id, choice)}
        value = effective_reward(r for r in rewards if r.target_id in names) if names else None
        if value is not None:
            own[item.segment.key] = value
    return own

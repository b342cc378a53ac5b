"""Reward rows: written once, counted on their trajectory, read back as ``atdp.rewards.Reward``."""

from collections import defaultdict
from collections.abc import Sequence
from typing import cast

import msgspec
from sqlalchemy import Connection, Row, select, update

from atdp.ids import new_event_id
from atdp.rewards import Reward, Source, TargetKind
from dataproxy.ledger.rows import append_rows
from dataproxy.store.dialect import find_all
from dataproxy.store.schema import agent, reward, trajectory


class RewardRow(msgspec.Struct, frozen=True):
    """A row of the ``reward`` table; free texts are redacted, ``idempotency_key`` is a keyed digest (hex)."""

    tenant: str
    reward_id: str
    target_kind: str
    target_id: str
    trajectory_id: str
    name: str
    value: float | None
    label: str | None
    correction: str | None
    source: str
    explanation: str | None
    idempotency_key: str | None
    supersedes: str | None
    key_id: str
    received_us: int


_FOR_EFFECT = (*("trajectory_id", "value", "reward_id", "target_kind", "target_id", "name", "source", "received_us", "supersedes"),)
BUILT_IN = "source:"
"""Rewards that come by an agent's rule, not from a caller, carry this and the rule's name as their ``key_id``."""


def given_by_rule(
    tenant: str, target: tuple[str, str, str], name: str, value: float, source: str, now_us: int, why: str, key: str | None = None
) -> RewardRow:
    """A reward that an agent's rule gives to ``target`` (kind, id, trajectory); once, where ``key`` names the occasion."""
    kind, target_id, trajectory_id = target
    words = {"name": name, "value": value, "label": None, "correction": None, "source": source, "explanation": why}
    where = {"target_kind": kind, "target_id": target_id, "trajectory_id": trajectory_id}
    occasion = f"{BUILT_IN}{name}:{key or target_id}"
    ids = {"reward_id": f"rw-{new_event_id()}", "idempotency_key": occasion, "supersedes": None, "key_id": f"{BUILT_IN}{name}"}
    return msgspec.convert({"tenant": tenant, **ids, **where, **words, "received_us": now_us}, RewardRow)


def insert_reward(connection: Connection, row: RewardRow) -> None:
    """Store ``row``; a value opens its trajectory for training, and ends it where the agent's rule takes it for the last word."""
    stored = msgspec.structs.asdict(row)
    connection.execute(reward.insert().values(stored))
    append_rows(connection, reward, [stored])
    if row.value is not None:
        where = (trajectory.c.tenant == row.tenant, trajectory.c.trajectory_id == row.trajectory_id)
        connection.execute(update(trajectory).where(*where).values(num_rewards=trajectory.c.num_rewards + 1))
        if _is_terminal(connection, row):
            connection.execute(update(trajectory).where(*where).values(ended=True))


def _is_terminal(connection: Connection, row: RewardRow) -> bool:
    """By name where the agent has one for it; else whatever a caller gives, built-in sources speak of single turns."""
    same = (agent.c.tenant == trajectory.c.tenant) & (agent.c.agent == trajectory.c.agent)
    query = select(agent.c.terminal).select_from(trajectory.join(agent, same))
    where = (trajectory.c.tenant == row.tenant, trajectory.c.trajectory_id == row.trajectory_id)
    terminal = connection.execute(query.where(*where)).scalar()
    return row.name == terminal if terminal is not None else not row.key_id.startswith(BUILT_IN)


def find_by_idempotency(connection: Connection, tenant: str, key: str) -> RewardRow | None:
    """The reward that was stored under ``key`` before."""
    row = connection.execute(select(reward).where(reward.c.tenant == tenant, reward.c.idempotency_key == key)).first()
    return RewardRow(**row._mapping) if row is not None else None


def reward_exists(connection: Connection, tenant: str, reward_id: str) -> bool:
    """Whether ``tenant`` has it."""
    query = select(reward.c.reward_id).where(reward.c.tenant == tenant, reward.c.reward_id == reward_id)
    return connection.execute(query).first() is not None


def rewards_of(connection: Connection, tenant: str, trajectory_ids: Sequence[str]) -> dict[str, list[Reward]]:
    """Trajectory → its rewards that carry a value, in the order they came."""
    found: dict[str, list[Reward]] = defaultdict(list)
    for start in range(0, len(trajectory_ids), 500):
        chunk = trajectory_ids[start : start + 500]
        where = (reward.c.tenant == tenant, reward.c.trajectory_id.in_(chunk), reward.c.value.is_not(None))
        for row in connection.execute(select(reward).where(*where).order_by(reward.c.received_us, reward.c.reward_id)):
            found[row.trajectory_id].append(as_reward(row))
    return found


def values_of(connection: Connection, tenant: str, trajectory_ids: Sequence[str]) -> dict[str, list[Reward]]:
    """The same for their effect alone, of many trajectories at a time: in no order, and without texts."""
    found: dict[str, list[Reward]] = defaultdict(list)
    for trajectory_id, value, *rest in find_all(connection, reward, _FOR_EFFECT, "trajectory_id", trajectory_ids, tenant=tenant):
        if value is not None:
            reward_id, kind, target_id, name, source, received_us, supersedes = rest
            known = (reward_id, tenant, kind, target_id, name, value, source, received_us)
            found[trajectory_id].append(Reward(*known, supersedes=supersedes))
    return found


def as_reward(row: Row[tuple[object, ...]]) -> Reward:
    """The protocol's form of a row with a value."""
    return Reward(
        reward_id=row.reward_id,
        tenant=row.tenant,
        target_kind=cast(TargetKind, row.target_kind),
        target_id=row.target_id,
        name=row.name,
        value=row.value,
        source=cast(Source, row.source),
        received_us=row.received_us,
        explanation=row.explanation,
        idempotency_key=row.idempotency_key,
        supersedes=row.supersedes,
    )

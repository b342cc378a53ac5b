"""Counts for ``headrace status`` and rewards by policy version."""

from collections import defaultdict
from typing import Any

from sqlalchemy import Connection, Select, Table, func, select

from atdp.rewards import effective_reward
from atdp.versions import version_name
from dataproxy.client.types import Status, VersionRewards
from dataproxy.errors import NotFound
from dataproxy.store.consents import INTERNAL
from dataproxy.store.rewards import rewards_of
from dataproxy.store.schema import (
    eligibility,
    event,
    key_spend,
    lease,
    pending_reward,
    policy_version,
    quarantine,
    redaction_count,
    reward,
    training_use,
    trajectory,
)
from dataproxy.store.versions import serving_version


def redacted_kinds(connection: Connection, tenant: str | None) -> list[str]:
    """Every kind of value that was taken out of something of ``tenant`` (None: of anybody), by name."""
    kinds = select(redaction_count.c.kind).distinct().order_by(redaction_count.c.kind)
    return list(connection.execute(_of(kinds, redaction_count, tenant)).scalars())


def read_status(connection: Connection, journal_backlog: int, tenant: str | None = None) -> Status:
    """Counts of ``tenant`` (None: over all); versions are everybody's."""
    decisions = _by(connection, eligibility, "reason", tenant)
    redactions = select(redaction_count.c.kind, func.sum(redaction_count.c.num)).group_by(redaction_count.c.kind)
    try:
        serving = serving_version(connection).version
    except NotFound:
        serving = None
    return Status(
        events=_count_calls(connection, tenant),
        journal_backlog=journal_backlog,
        redactions={row[0]: int(row[1]) for row in connection.execute(_of(redactions, redaction_count, tenant))},
        trainable=decisions.pop("eligible", 0),
        not_trainable=decisions,
        trajectories=_count(connection, trajectory, tenant),
        rewards=_count(connection, reward, tenant),
        pending_rewards=_count(connection, pending_reward, tenant),
        leases=_by(connection, lease, "state", tenant).get("open", 0),
        trained=_count(connection, training_use, tenant),
        quarantine=_by(connection, quarantine, "reason", tenant),
        versions=_count(connection, policy_version, None),
        serving=serving,
        spend=_spend(connection, tenant),
    )


def rewards_by_version(connection: Connection, tenant: str | None) -> list[VersionRewards]:
    """Rewarded trajectories by the version of their last sampled token; ``tenant`` None: of all."""
    query = select(trajectory.c.tenant, trajectory.c.trajectory_id, trajectory.c.last_version)
    query = query.where(trajectory.c.num_rewards > 0, trajectory.c.last_version >= 0)
    if tenant is not None:
        query = query.where(trajectory.c.tenant == tenant)
    versions: dict[str, dict[str, int]] = defaultdict(dict)
    for row in connection.execute(query):
        versions[row.tenant][row.trajectory_id] = row.last_version
    values: dict[int, list[float]] = defaultdict(list)
    for owner, by_id in versions.items():
        for trajectory_id, rewards in rewards_of(connection, owner, list(by_id)).items():
            if (value := effective_reward(rewards)) is not None:
                values[by_id[trajectory_id]].append(value)
    return [VersionRewards(version_name(v), len(r), sum(r) / len(r)) for v, r in sorted(values.items())]


def _of(query: Select[Any], table: Table, tenant: str | None) -> Select[Any]:
    return query if tenant is None else query.where(table.c.tenant == tenant)


def _spend(connection: Connection, tenant: str | None) -> dict[str, float]:
    """US dollars by key id."""
    query = select(key_spend.c.key_id, func.sum(key_spend.c.nanodollars)).group_by(key_spend.c.key_id)
    return {key: int(sum_) / 1e9 for key, sum_ in connection.execute(_of(query, key_spend, tenant))}


def _count_calls(connection: Connection, tenant: str | None) -> int:
    """Model calls of agents; the system's own are none."""
    query = select(func.count()).select_from(event).where(event.c.kind == "model_call", event.c.agent.not_like(f"{INTERNAL}%"))
    return int(connection.execute(_of(query, event, tenant)).scalar_one())


def _count(connection: Connection, table: Table, tenant: str | None) -> int:
    return int(connection.execute(_of(select(func.count()).select_from(table), table, tenant)).scalar_one())


def _by(connection: Connection, table: Table, column: str, tenant: str | None) -> dict[str, int]:
    query = select(table.c[column], func.count()).group_by(table.c[column])
    return {str(key): int(count) for key, count in connection.execute(_of(query, table, tenant))}

"""What became of policy versions, and the batches that they were made of, rebuilt from the rewards that were known then."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, func, select

from atdp.rewards import effective_reward
from atdp.samples import BatchManifest
from dataproxy.client.watch_types import RebuiltBatch, RebuiltRow, VersionState
from dataproxy.store.rewards import rewards_of
from dataproxy.store.schema import lease, lease_item, policy_version_state, training_use

MOST_STATES, MOST_ROWS = 200, 2000


def states_of(connection: Connection, version: str | None = None, limit: int = MOST_STATES) -> list[VersionState]:
    """What became of ``version`` (None: of any), newest change first."""
    query = select(policy_version_state).order_by(policy_version_state.c.position.desc()).limit(limit)
    rows = connection.execute(query if version is None else query.where(policy_version_state.c.version == version))
    return [VersionState(row.version, row.state, row.changed_us, row.key_id) for row in rows]


def uses_of(connection: Connection, tenant: str | None, version: str, limit: int) -> Sequence[Any]:
    """Rows of ``training_use`` of ``version``, of ``tenant``'s trajectories (None: of all)."""
    query = select(training_use).where(training_use.c.version == version)
    query = query if tenant is None else query.where(training_use.c.tenant == tenant)
    return connection.execute(query.order_by(training_use.c.used_us, training_use.c.trajectory_id).limit(limit)).all()


@dataclass(slots=True, frozen=True)
class LeftOut:
    """``rows`` of ``lease_item``, ordered by the reason (their ``outcome``); ``more`` are not shown."""

    rows: Sequence[Any] = ()
    more: int = 0


def left_out_of(connection: Connection, tenant: str | None, lease_id: str, limit: int) -> LeftOut:
    """The trajectories of a lease that its trainer passed over, those of ``tenant`` (None: of all)."""
    where = [lease_item.c.lease_id == lease_id, lease_item.c.outcome != "trained"]  # None: nothing was said of it
    if tenant is not None:
        where.append(func.coalesce(lease_item.c.tenant, "") == tenant)  # in no index's words: the lease finds them
    query = select(lease_item).where(*where).order_by(lease_item.c.outcome, lease_item.c.trajectory_id).limit(limit)
    num = connection.execute(select(func.count()).select_from(lease_item).where(*where)).scalar_one()
    rows = connection.execute(query).all()
    return LeftOut(rows, num - len(rows))


def lent_by(connection: Connection, tenant: str | None, lease_id: str) -> set[str]:
    """Whose trajectories went with a lease, as far as ``tenant`` may know (None: all)."""
    query = select(lease_item.c.tenant).where(lease_item.c.lease_id == lease_id).distinct()
    if tenant is not None:
        query = query.where(func.coalesce(lease_item.c.tenant, "") == tenant)  # as above
    return set(connection.execute(query).scalars())


def lent_us(connection: Connection, lease_id: str) -> int | None:
    """When a lease was granted, whoever's it is: a tenant may know of that what its own trajectories went with."""
    return connection.execute(select(lease.c.created_us).where(lease.c.lease_id == lease_id)).scalar()


def rebuild(connection: Connection, manifest: BatchManifest, tenant: str | None) -> RebuiltBatch:
    """The batch of ``manifest`` again: each trajectory's reward from those that had come by then, beside what was used."""
    uses = uses_of(connection, tenant, manifest.version, MOST_ROWS)
    owners = {row.trajectory_id: row.tenant for row in uses}
    ids = manifest.trajectories[:MOST_ROWS]
    seen = rewards_at(connection, owners, manifest.as_of_us)
    now = rewards_at(connection, owners, None)
    rows = [RebuiltRow(owners.get(name, ""), name, manifest.rewards.get(name), seen.get(name), now.get(name)) for name in ids]
    known = [row for row in rows if row.tenant]
    agree = sum(same_reward(row.used, row.seen) for row in known)
    return RebuiltBatch(manifest, rows, len(known), agree, max(0, len(manifest.trajectories) - MOST_ROWS))


def rewards_at(connection: Connection, owners: dict[str, str], as_of_us: int | None) -> dict[str, float]:
    """Trajectory → its effective reward at that moment (None: now); ``owners`` maps trajectories to tenants."""
    by_owner: dict[str, list[str]] = defaultdict(list)
    for name, owner in owners.items():
        by_owner[owner].append(name)
    found: dict[str, float] = {}
    for owner, names in by_owner.items():
        given = rewards_of(connection, owner, names)
        effective = ((name, effective_reward(given.get(name, []), as_of_us)) for name in names)
        found |= {name: value for name, value in effective if value is not None}
    return found


def same_reward(used: float | None, seen: float | None) -> bool:
    """Whether two rewards are one, but for rounding; None: there is none."""
    return used == seen or (used is not None and seen is not None and abs(used - seen) < 1e-9)

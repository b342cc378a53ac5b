"""Rewards by policy version, bounded: of each of the newest versions the newest rewarded trajectories, by an index of those."""

import statistics
from collections import defaultdict
from collections.abc import Iterator

from sqlalchemy import ColumnElement, Connection, func, select, text

from atdp.rewards import effective_reward
from atdp.versions import version_name
from dataproxy.client.watch_types import SUCCESS_ABOVE, VersionOutcome
from dataproxy.store.rewards import values_of
from dataproxy.store.schema import trajectory

MOST_VERSIONS, MOST_TRAJECTORIES, MOST_COUNTED = 60, 200, 10_000
"""Versions looked at, trajectories of each, and how far they are counted."""
_IS_REWARDED = text("num_rewards > 0")
"""In the words of the index: SQLite uses a partial one only where no parameter stands in their place."""


def version_outcomes(
    connection: Connection, tenant: str | None, among: tuple[int, ...] = (), versions: int = MOST_VERSIONS
) -> list[VersionOutcome]:
    """Oldest first; of ``tenant``'s trajectories (None: of all). ``among``: of these versions alone, by index."""
    found = [_outcome(connection, tenant, version) for version in sorted(among or _newest(connection, tenant, versions))]
    return [one for one in found if one is not None]


def _newest(connection: Connection, tenant: str | None, limit: int) -> Iterator[int]:
    """The newest versions that sampled what was rewarded, each found from the one before: a step of the index a version."""
    above: int | None = None
    for _ in range(limit):
        query = select(func.max(trajectory.c.last_version)).where(*_rewarded(tenant), trajectory.c.last_version >= 0)
        query = query if above is None else query.where(trajectory.c.last_version < above)
        above = connection.execute(query).scalar()
        if above is None:
            return
        yield above


def _outcome(connection: Connection, tenant: str | None, version: int) -> VersionOutcome | None:
    where = (*_rewarded(tenant), trajectory.c.last_version == version)
    order = (trajectory.c.started_us.desc(), trajectory.c.trajectory_id.desc())
    newest = select(trajectory.c.tenant, trajectory.c.trajectory_id).where(*where).order_by(*order).limit(MOST_TRAJECTORIES)
    owners: dict[str, list[str]] = defaultdict(list)
    for owner, trajectory_id in connection.execute(newest):
        owners[owner].append(trajectory_id)
    given = (rewards for owner, ids in owners.items() for rewards in values_of(connection, owner, ids).values())
    values = [value for rewards in given if (value := effective_reward(rewards)) is not None]
    if not values:
        return None
    counted = select(trajectory.c.last_version).where(*where).limit(MOST_COUNTED).subquery()
    num = connection.execute(select(func.count()).select_from(counted)).scalar_one()
    deviation = statistics.stdev(values) if len(values) > 1 else 0.0
    success = sum(value > SUCCESS_ABOVE for value in values) / len(values)
    return VersionOutcome(version_name(version), num, len(values), statistics.fmean(values), deviation, success)


def _rewarded(tenant: str | None) -> tuple[ColumnElement[bool], ...]:
    return (_IS_REWARDED, *(() if tenant is None else (trajectory.c.tenant == tenant,)))

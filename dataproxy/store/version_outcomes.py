"""Rewards by policy version, bounded: of each of the newest versions the newest rewarded trajectories."""

import statistics
from collections import defaultdict

from sqlalchemy import Connection, func, select

from atdp.rewards import effective_reward
from atdp.versions import version_name
from dataproxy.client.watch_types import SUCCESS_ABOVE, VersionOutcome
from dataproxy.store.rewards import rewards_of
from dataproxy.store.schema import trajectory

MOST_VERSIONS, MOST_TRAJECTORIES = 60, 200
"""Versions looked at, and trajectories of each."""


def version_outcomes(
    connection: Connection, tenant: str | None, among: tuple[int, ...] = (), versions: int = MOST_VERSIONS
) -> list[VersionOutcome]:
    """Oldest first; of ``tenant``'s trajectories (None: of all). ``among``: of these versions alone, by index."""
    where = [trajectory.c.num_rewards > 0, trajectory.c.last_version >= 0]
    if tenant is not None:
        where.append(trajectory.c.tenant == tenant)
    if among:
        where.append(trajectory.c.last_version.in_(among))
    grouped = select(trajectory.c.last_version, func.count()).where(*where).group_by(trajectory.c.last_version)
    newest = connection.execute(grouped.order_by(trajectory.c.last_version.desc()).limit(versions)).all()
    counts: dict[int, int] = {row[0]: row[1] for row in newest}
    where.append(trajectory.c.last_version.in_(counts))
    order = (trajectory.c.started_us.desc(), trajectory.c.trajectory_id)
    rank = func.row_number().over(partition_by=trajectory.c.last_version, order_by=order).label("rank")
    ranked = select(trajectory.c.tenant, trajectory.c.trajectory_id, trajectory.c.last_version, rank).where(*where).subquery()
    whose: dict[str, dict[str, int]] = defaultdict(dict)
    for row in connection.execute(select(ranked).where(ranked.c.rank <= MOST_TRAJECTORIES)):
        whose[row.tenant][row.trajectory_id] = row.last_version
    values: dict[int, list[float]] = defaultdict(list)
    for owner, ids in whose.items():
        for trajectory_id, rewards in rewards_of(connection, owner, list(ids)).items():
            if (value := effective_reward(rewards)) is not None:
                values[ids[trajectory_id]].append(value)
    return [_outcome(version, counts[version], found) for version, found in sorted(values.items())]


def _outcome(version: int, num: int, values: list[float]) -> VersionOutcome:
    deviation = statistics.stdev(values) if len(values) > 1 else 0.0
    success = sum(value > SUCCESS_ABOVE for value in values) / len(values)
    return VersionOutcome(version_name(version), num, len(values), statistics.fmean(values), deviation, success)

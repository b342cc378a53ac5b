"""What a version learned from, a lesson a trajectory: its agent, how it began, its turns, and the reward that was used."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, select

from atdp.samples import BatchManifest
from atdp.versions import version_index
from dataproxy.lease.learned import LearnedTurns, learned_turns
from dataproxy.store.schema import trajectory
from dataproxy.store.trajectory_rows import openings_of

MOST_LESSONS = 200


@dataclass(slots=True, frozen=True)
class Lesson:
    """``opening``: the first words of the conversation, "" where the reader may not open trajectories."""

    agent: str
    opening: str
    turns: LearnedTurns


def lessons_of(
    connection: Connection, uses: Sequence[Any], manifest: BatchManifest | None, as_of_us: int, opens: bool
) -> dict[tuple[str, str], Lesson]:
    """(tenant, trajectory) → the lesson, of the rows ``uses`` of ``training_use``; without a manifest nothing counts as stale."""
    by_tenant: dict[str, list[str]] = defaultdict(list)
    for use in uses:
        by_tenant[use.tenant].append(use.trajectory_id)
    openings = openings_of(connection, [(use.tenant, use.trajectory_id) for use in uses]) if opens else {}
    vaulted = {use.trajectory_id for use in uses if use.vaulted}
    found = {}
    for tenant, ids in by_tenant.items():
        turns = learned_turns(connection, tenant, ids, _oldest(manifest), as_of_us, vaulted)
        where = (trajectory.c.tenant == tenant, trajectory.c.trajectory_id.in_(ids))
        for row in connection.execute(select(trajectory.c.trajectory_id, trajectory.c.agent).where(*where)):
            key = (tenant, row.trajectory_id)
            found[key] = Lesson(row.agent, openings.get(key, ""), turns[row.trajectory_id])
    return found


def _oldest(manifest: BatchManifest | None) -> int:
    """The oldest version whose tokens the step took, as its settings on record say; 0 where they don't."""
    limit = manifest.config.get("max_staleness") if manifest is not None else None
    return version_index(manifest.parent_version) - int(limit) if manifest is not None and isinstance(limit, int) else 0

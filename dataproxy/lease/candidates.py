"""Which trajectories may be lent now, freshest policy first, and how many are left out for which reason.

Ready: rewarded, something eligible in it, idle for the agent's settling time, its reward window over (``dataproxy.lease.windows``).
Of the ready ones some were served by both lanes, are held by another lease, have been trained often enough, are too old, or have
lost their consent.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Connection, Select, and_, func, select

from dataproxy.client.types import LeaseRequest
from dataproxy.lease.windows import Now, awaits_group, held, is_judged, is_open, is_settled, with_agent
from dataproxy.store.schema import trajectory

_PAGE = 256


@dataclass(slots=True, frozen=True)
class Candidate:
    """A trajectory that may be lent; ``group`` is the task that it attempts among others, "" for none."""

    tenant: str
    trajectory_id: str
    agent: str
    session_id: str
    group: str = ""


@dataclass(slots=True, frozen=True)
class Terms:
    """What a lease asks for, in the store's terms; ``tenant`` and ``agent`` None: any."""

    tenant: str | None
    agent: str | None
    oldest_version: int
    version_now: int
    max_reuse: int
    now: Now


def terms_of(request: LeaseRequest, tenant: str | None, version_now: int, now_us: int, settle_s: float) -> Terms:
    """The terms of ``request`` at ``now_us``."""
    oldest = version_now - request.max_staleness
    return Terms(tenant, request.agent, oldest, version_now, request.max_reuse, Now(now_us, settle_s))


def find_candidates(connection: Connection, terms: Terms) -> Iterator[Candidate]:
    """Candidates, consent not yet asked, freshest policy first, then the longest waiting. Attempts wait for their group."""
    query = _candidates(terms).where(~awaits_group(terms.now))
    skip = 0
    while page := connection.execute(query.limit(_PAGE).offset(skip)).all():
        yield from (Candidate(*row) for row in page)
        skip += len(page)


def find_attempts(connection: Connection, terms: Terms, first: Candidate, limit: int) -> list[Candidate]:
    """``first`` and what else of its group may be lent, up to ``limit``; when one goes, the others wait no longer."""
    whose = (trajectory.c.tenant == first.tenant, trajectory.c.agent == first.agent, trajectory.c.group_id == first.group)
    found = connection.execute(_candidates(terms).where(*whose, trajectory.c.trajectory_id != first.trajectory_id).limit(limit - 1))
    return [first, *(Candidate(*row) for row in found)]


def count_left_out(connection: Connection, terms: Terms) -> dict[str, int]:
    """Ready trajectories that are no candidates, by the first reason."""
    reused = trajectory.c.times_trained >= terms.max_reuse
    stale = trajectory.c.newest_version < terms.oldest_version
    later = trajectory.c.newest_version > terms.version_now  # sampled by weights that were rolled back
    free = and_(~held(), ~reused, ~_mixed())
    reasons = {
        "mixed_lanes": and_(~held(), ~reused, _mixed()),
        "leased": held(),
        "reused": and_(~held(), reused),
        "stale": and_(free, stale),
        "rolled_back": and_(free, later),
    }
    counts = {}
    for reason, condition in reasons.items():
        query = select(func.count()).select_from(with_agent()).where(_ready(terms), condition)
        if (count := connection.execute(query).scalar_one()) > 0:
            counts[reason] = count
    return counts


def _candidates(terms: Terms) -> Select[Any]:
    columns = [trajectory.c[name] for name in ("tenant", "trajectory_id", "agent", "session_id", "group_id")]
    return (
        select(*columns)
        .select_from(with_agent())
        .where(_ready(terms), ~_mixed(), ~held(), trajectory.c.times_trained < terms.max_reuse, _fresh(terms))
        .order_by(trajectory.c.newest_version.desc(), trajectory.c.last_us, trajectory.c.trajectory_id)
    )


def _ready(terms: Terms) -> ColumnElement[bool]:
    conditions = [
        trajectory.c.num_rewards > 0,
        trajectory.c.num_eligible > 0,
        is_settled(terms.now),
        ~is_open(terms.now),
        is_judged(),
    ]
    if terms.tenant is not None:
        conditions.append(trajectory.c.tenant == terms.tenant)
    if terms.agent is not None:
        conditions.append(trajectory.c.agent == terms.agent)
    return and_(*conditions)


def _mixed() -> ColumnElement[bool]:
    """Served by the canary's workers and by others: what it earned says nothing of either version."""
    return trajectory.c.lane == "mixed"


def _fresh(terms: Terms) -> ColumnElement[bool]:
    return trajectory.c.newest_version.between(terms.oldest_version, terms.version_now)

"""Which trajectories may be lent now, freshest policy first, and how many are left out for which reason.

Ready: rewarded, something eligible in it, idle for the agent's settling time, its reward window over (``dataproxy.lease.windows``).
Of the ready ones some were served by both lanes, are held by another lease, are on legal hold, have been trained often enough, are
too old, or have lost their consent.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Connection, Select, and_, case, func, select, text

from dataproxy.client.types import LeaseRequest
from dataproxy.lease.windows import Now, awaits_group, held, is_judged, is_open, is_settled, with_agent
from dataproxy.retain.holds import is_on_hold
from dataproxy.store.schema import trajectory

_PAGE = 256
_LENDABLE = text("trajectory.num_rewards > 0 AND trajectory.num_eligible > 0")
"""In the words of its index."""


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
    skip, num = 0, _PAGE
    while page := connection.execute(query.limit(num).offset(skip)).all():
        yield from (Candidate(*row) for row in page)
        skip += len(page)
        num = skip  # the order is made anew for every page, so pages grow


def find_attempts(connection: Connection, terms: Terms, first: Candidate, limit: int) -> list[Candidate]:
    """``first`` and what else of its group may be lent, up to ``limit``; when one goes, the others wait no longer."""
    whose = (trajectory.c.tenant == first.tenant, trajectory.c.agent == first.agent, trajectory.c.group_id == first.group)
    found = connection.execute(_candidates(terms).where(*whose, trajectory.c.trajectory_id != first.trajectory_id).limit(limit - 1))
    return [first, *(Candidate(*row) for row in found)]


def count_left_out(connection: Connection, terms: Terms, most: int) -> dict[str, int]:
    """Ready trajectories that are no candidates, by the first reason, among the ``most`` lendable ones of the newest policies."""
    newest = select(trajectory.c.tenant, trajectory.c.trajectory_id).where(_LENDABLE, *_asked_for(terms))
    looked_at = newest.order_by(trajectory.c.newest_version.desc()).limit(most).subquery()
    same = and_(looked_at.c.tenant == trajectory.c.tenant, looked_at.c.trajectory_id == trajectory.c.trajectory_id)
    reason = case(
        (held(), "leased"),
        (is_on_hold(), "legal_hold"),
        (trajectory.c.times_trained >= terms.max_reuse, "reused"),
        (_mixed(), "mixed_lanes"),
        (trajectory.c.newest_version < terms.oldest_version, "stale"),
        (trajectory.c.newest_version > terms.version_now, "rolled_back"),  # sampled by weights that were rolled back
        else_="",
    )
    reasons = select(reason.label("reason")).select_from(with_agent().join(looked_at, same)).where(_ready(terms)).subquery()
    query = select(reasons.c.reason, func.count()).where(reasons.c.reason != "").group_by(reasons.c.reason)
    return {str(reason): int(count) for reason, count in connection.execute(query)}


def _candidates(terms: Terms) -> Select[Any]:
    columns = [trajectory.c[name] for name in ("tenant", "trajectory_id", "agent", "session_id", "group_id")]
    return (
        select(*columns)
        .select_from(with_agent())
        .where(_ready(terms), ~_mixed(), ~held(), trajectory.c.times_trained < terms.max_reuse, _fresh(terms), ~is_on_hold())
        .order_by(trajectory.c.newest_version.desc(), trajectory.c.last_us, trajectory.c.trajectory_id)
    )


def _ready(terms: Terms) -> ColumnElement[bool]:
    return and_(_LENDABLE, is_settled(terms.now), ~is_open(terms.now), is_judged(), *_asked_for(terms))


def _asked_for(terms: Terms) -> list[ColumnElement[bool]]:
    """In words that no other index has: one on the tenant would be begun with, and all that is the tenant's looked at."""
    asked = ((trajectory.c.tenant, terms.tenant), (trajectory.c.agent, terms.agent))
    return [func.coalesce(column, "") == value for column, value in asked if value is not None]


def _mixed() -> ColumnElement[bool]:
    """Served by the canary's workers and by others: what it earned says nothing of either version."""
    return trajectory.c.lane == "mixed"


def _fresh(terms: Terms) -> ColumnElement[bool]:
    return trajectory.c.newest_version.between(terms.oldest_version, terms.version_now)

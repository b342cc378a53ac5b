"""Which trajectories may be lent now, freshest policy first, and how many are left out for which reason.

Ready: rewarded, something eligible in it, idle for the agent's settling time. Of the ready ones some are held by another lease,
have been trained often enough, are too old, or have lost their consent.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from sqlalchemy import ColumnElement, Connection, and_, exists, func, select
from sqlalchemy.sql.selectable import Join

from dataproxy.client.types import LeaseRequest
from dataproxy.store.schema import agent, lease_item, trajectory

_PAGE = 256


@dataclass(slots=True, frozen=True)
class Candidate:
    """A trajectory that may be lent."""

    tenant: str
    trajectory_id: str
    agent: str
    session_id: str


@dataclass(slots=True, frozen=True)
class Terms:
    """What a lease asks for, in the store's terms; ``tenant`` and ``agent`` None: any."""

    tenant: str | None
    agent: str | None
    oldest_version: int
    version_now: int
    max_reuse: int
    settled_before_us: int
    default_settle_us: int


def terms_of(request: LeaseRequest, tenant: str | None, version_now: int, now_us: int, settle_s: float) -> Terms:
    """The terms of ``request`` at ``now_us``."""
    oldest = version_now - request.max_staleness
    return Terms(tenant, request.agent, oldest, version_now, request.max_reuse, now_us, int(settle_s * 1e6))


def find_candidates(connection: Connection, terms: Terms) -> Iterator[Candidate]:
    """Candidates, consent not yet asked, freshest policy first and then the longest waiting."""
    query = (
        select(trajectory.c.tenant, trajectory.c.trajectory_id, trajectory.c.agent, trajectory.c.session_id)
        .select_from(_with_agent())
        .where(_ready(terms), ~_held(), trajectory.c.times_trained < terms.max_reuse, _fresh(terms))
        .order_by(trajectory.c.newest_version.desc(), trajectory.c.last_us, trajectory.c.trajectory_id)
    )
    skip = 0
    while page := connection.execute(query.limit(_PAGE).offset(skip)).all():
        yield from (Candidate(*row) for row in page)
        skip += len(page)


def count_left_out(connection: Connection, terms: Terms) -> dict[str, int]:
    """Ready trajectories that are no candidates, by the first reason."""
    reused = trajectory.c.times_trained >= terms.max_reuse
    stale = trajectory.c.newest_version < terms.oldest_version
    later = trajectory.c.newest_version > terms.version_now  # sampled by weights that were rolled back
    free = and_(~_held(), ~reused)
    reasons = {"leased": _held(), "reused": and_(~_held(), reused), "stale": and_(free, stale), "rolled_back": and_(free, later)}
    counts = {}
    for reason, condition in reasons.items():
        query = select(func.count()).select_from(_with_agent()).where(_ready(terms), condition)
        if (count := connection.execute(query).scalar_one()) > 0:
            counts[reason] = count
    return counts


def _with_agent() -> Join:
    return trajectory.outerjoin(agent, and_(agent.c.tenant == trajectory.c.tenant, agent.c.agent == trajectory.c.agent))


def _ready(terms: Terms) -> ColumnElement[bool]:
    settle_us = func.coalesce(agent.c.settle_s * 1_000_000, terms.default_settle_us)
    conditions = [
        trajectory.c.num_rewards > 0,
        trajectory.c.num_eligible > 0,
        trajectory.c.last_us <= terms.settled_before_us - settle_us,
    ]
    if terms.tenant is not None:
        conditions.append(trajectory.c.tenant == terms.tenant)
    if terms.agent is not None:
        conditions.append(trajectory.c.agent == terms.agent)
    return and_(*conditions)


def _fresh(terms: Terms) -> ColumnElement[bool]:
    return trajectory.c.newest_version.between(terms.oldest_version, terms.version_now)


def _held() -> ColumnElement[bool]:
    same = and_(lease_item.c.tenant == trajectory.c.tenant, lease_item.c.trajectory_id == trajectory.c.trajectory_id)
    return exists().where(same, lease_item.c.held.is_(True))

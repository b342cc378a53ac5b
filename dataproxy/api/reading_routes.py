"""Events and trajectories for those who may read them. The read is on record, committed, before a byte is returned."""

from fastapi import APIRouter, Query, Response
from sqlalchemy import Connection, select

from atdp.rewards import effective_reward
from dataproxy.api.answers import json_answer
from dataproxy.api.identity import Caller, ServicesDep, require, scope
from dataproxy.api.on_record import Purpose, put_on_record, unrecorded
from dataproxy.client.types import EventDetail, EventPage, TrajectoryDetail
from dataproxy.errors import NotFound
from dataproxy.lease.explain import explain
from dataproxy.lease.windows import Now
from dataproxy.store.keys import OPERATOR
from dataproxy.store.reading import events_of, find_event, list_events
from dataproxy.store.rewards import rewards_of
from dataproxy.store.schema import eligibility, training_use, trajectory
from dataproxy.store.segments import token_records
from dataproxy.store.statistics import rewards_by_version

router = APIRouter(prefix="/v1")


@router.get("/events")
def get_events(
    services: ServicesDep,
    caller: Caller,
    purpose: Purpose,
    limit: int = Query(50, ge=1, le=1000),
    after: int = Query(0, ge=0),
    session: str | None = None,
    kind: str | None = None,
) -> Response:
    """A page of events."""
    require(caller, "reviewer", "agent")
    tenant = scope(caller)
    with services.database.read() as connection:
        found = list_events(connection, tenant, limit, after, session, kind)
    owners = {event.tenant for _, event in found} or {tenant if tenant is not None else OPERATOR}
    put_on_record(services, caller, owners, "events", session or kind or "", purpose)
    next_after = found[-1][0] if len(found) == limit else None
    return json_answer(EventPage([event for _, event in found], next_after))


@router.get("/events/{event_id}")
def get_event(services: ServicesDep, caller: Caller, purpose: Purpose, event_id: str) -> Response:
    """One event with its tokens."""
    require(caller, "reviewer", "agent")
    with services.database.read() as connection:
        event = find_event(connection, scope(caller), event_id)
        if event is None:
            raise NotFound(f"no event {event_id}")
        tokens = token_records(connection, event.tenant, event_id)
        where = (eligibility.c.tenant == event.tenant, eligibility.c.event_id == event_id)
        decisions = {row.choice: row.reason for row in connection.execute(select(eligibility).where(*where))}
    put_on_record(services, caller, [event.tenant], "event", event_id, purpose)
    return json_answer(EventDetail(event, tokens, decisions))


@router.get("/trajectories/{trajectory_id}")
def get_trajectory(services: ServicesDep, caller: Caller, purpose: Purpose, trajectory_id: str) -> Response:
    """One trajectory: events, reward, decisions, and what learned from it."""
    require(caller, "reviewer", "agent")
    with services.database.read() as connection:
        tenant, detail = _trajectory(connection, scope(caller), trajectory_id, Now(services.now_us(), services.settle_s))
    put_on_record(services, caller, [tenant], "trajectory", trajectory_id, purpose)
    return json_answer(detail)


@router.get("/stats/rewards")
@unrecorded("means and counts by policy version")
def get_reward_stats(services: ServicesDep, caller: Caller) -> Response:
    """Rewards by policy version."""
    require(caller, "reviewer", "trainer")
    with services.database.read() as connection:
        return json_answer(rewards_by_version(connection, scope(caller)))


def _trajectory(connection: Connection, tenant: str | None, trajectory_id: str, now: Now) -> tuple[str, TrajectoryDetail]:
    query = select(trajectory).where(trajectory.c.trajectory_id == trajectory_id)
    row = connection.execute(query if tenant is None else query.where(trajectory.c.tenant == tenant)).first()
    if row is None:
        raise NotFound(f"no trajectory {trajectory_id}")
    events = events_of(connection, row.tenant, trajectory_id)
    reasons = select(eligibility.c.reason).where(
        eligibility.c.tenant == row.tenant, eligibility.c.event_id.in_([event.event_id for event in events])
    )
    used = select(training_use.c.version).where(training_use.c.tenant == row.tenant, training_use.c.trajectory_id == trajectory_id)
    rewards = rewards_of(connection, row.tenant, [trajectory_id]).get(trajectory_id, [])
    found = explain(connection, now, row.tenant, trajectory_id, rewards)
    detail = TrajectoryDetail(
        trajectory_id=trajectory_id,
        session_id=row.session_id,
        events=events,
        reward=effective_reward(rewards),
        eligible=row.num_eligible > 0,
        reason=", ".join(sorted(set(connection.execute(reasons).scalars()))),
        trained_by=sorted(connection.execute(used).scalars()),
        rewards=rewards,
        place=found.place,
        left_out=found.left_out,
        cut_and_extended=found.cut_and_extended,
    )
    return row.tenant, detail

"""Why a trajectory has not been trained on yet, and which of its choices never will be: in the words that leases count by."""

from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, select

from atdp.rewards import Reward, event_of, turn_id
from dataproxy.lease.windows import Now, place_of
from dataproxy.store.consents import ConsentBook
from dataproxy.store.judgements import abstained_events
from dataproxy.store.schema import conversation_end, eligibility, event, token_segment, trajectory

_CHUNK = 500


@dataclass(slots=True, frozen=True)
class Explanation:
    """``place``: see ``where_it_is``, or no_consent. ``left_out``: choice (``<event>#<n>``) → why it is context only.

    ``cut_and_extended``: choices that were cut by length and that a later call goes on from all the same.
    """

    place: str
    left_out: dict[str, str]
    cut_and_extended: list[str]


def explain(connection: Connection, now: Now, tenant: str, trajectory_id: str, rewards: list[Reward]) -> Explanation:
    """How far a stored trajectory is, whose rewards are ``rewards``. Staleness is relative to a trainer: leases tell it."""
    place = place_of(connection, now, tenant, trajectory_id)
    where = (trajectory.c.tenant == tenant, trajectory.c.trajectory_id == trajectory_id)
    row = connection.execute(select(trajectory.c.agent, trajectory.c.session_id).where(*where)).one()
    if place != "trained" and not ConsentBook.read(connection).may_train(tenant, row.agent, row.session_id):
        place = "no_consent"
    abstained = abstained_events(connection, tenant, [trajectory_id])
    rewarded = {event_of(r.target_kind, r.target_id) for r in rewards if r.target_kind in ("event", "turn")}
    left_out = {}
    for one in _decisions(connection, tenant, trajectory_id):
        if not one.eligible:
            left_out[turn_id(one.event_id, one.choice)] = one.reason
        elif one.event_id in abstained - rewarded:
            left_out[turn_id(one.event_id, one.choice)] = "judge_abstained"
    return Explanation(place, left_out, _cut_and_extended(connection, tenant, trajectory_id))


def _decisions(connection: Connection, tenant: str, trajectory_id: str) -> list[Any]:
    """Decisions about its events, in their order.

    In two steps, not in a join: a planner without statistics would begin with all decisions of the tenant.
    """
    mine = select(event.c.event_id, event.c.seq).where(event.c.tenant == tenant, event.c.trajectory_id == trajectory_id)
    places = {row.event_id: row.seq for row in connection.execute(mine)}
    names, found = sorted(places), list[Any]()
    for start in range(0, len(names), _CHUNK):
        where = (eligibility.c.tenant == tenant, eligibility.c.event_id.in_(names[start : start + _CHUNK]))
        query = select(eligibility.c.event_id, eligibility.c.choice, eligibility.c.eligible, eligibility.c.reason)
        found += connection.execute(query.where(*where)).all()
    return sorted(found, key=lambda row: (places[row.event_id], row.choice))


def _cut_and_extended(connection: Connection, tenant: str, trajectory_id: str) -> list[str]:
    where = (token_segment.c.tenant == tenant, token_segment.c.trajectory_id == trajectory_id)
    columns = ("event_id", "choice", "finish_reason", "parent_event", "parent_choice")
    rows = connection.execute(select(*(token_segment.c[name] for name in columns)).where(*where)).all()
    extended = {(row.parent_event, row.parent_choice) for row in rows}
    cut = sorted((row.event_id, row.choice) for row in rows if row.finish_reason == "length")
    for start in range(0, len(cut), _CHUNK):
        names = [event_id for event_id, _ in cut[start : start + _CHUNK]]
        same = (conversation_end.c.tenant == tenant, conversation_end.c.event_id.in_(names), conversation_end.c.num_extended > 0)
        ends = select(conversation_end.c.event_id, conversation_end.c.choice).where(*same)
        extended |= {(row.event_id, row.choice) for row in connection.execute(ends)}
    return [turn_id(*choice) for choice in cut if choice in extended]

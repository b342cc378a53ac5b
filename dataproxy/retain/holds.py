"""Legal holds: what is on hold is kept for audit alone. It is neither erased nor expires, and no trainer is lent it.

Both the hold and its release are on record for good.
"""

from collections.abc import Iterable
from typing import Any

from sqlalchemy import ColumnElement, Connection, and_, exists, or_, select

from atdp.ids import new_event_id
from dataproxy.client.review_types import LegalHold
from dataproxy.errors import NotFound, Refused
from dataproxy.ledger.rows import append_rows
from dataproxy.retain.targets import Belongings
from dataproxy.store.schema import event, legal_hold, trajectory

SCOPES = ("tenant", "agent", "session", "trajectory", "subject")


def list_holds(connection: Connection, tenant: str | None, released: bool = False) -> list[LegalHold]:
    """Holds of ``tenant`` (None: of all) that are in force, oldest first; with those that were released if ``released``."""
    query = select(legal_hold).order_by(legal_hold.c.created_us, legal_hold.c.hold_id)
    rows = connection.execute(query if tenant is None else query.where(legal_hold.c.tenant == tenant)).all()
    ended = {(row.tenant, row.hold_id): row.created_us for row in rows if row.action == "release"}
    holds = [
        LegalHold(r.tenant, r.scope, r.target, r.reason, r.hold_id, r.key_id, r.created_us, ended.get((r.tenant, r.hold_id)))
        for r in rows
        if r.action == "add"
    ]
    return [hold for hold in holds if released or hold.released_us is None]


def add_hold(connection: Connection, hold: LegalHold, key_id: str, now_us: int) -> LegalHold:
    """Put a hold on record; it is in force from now on.

    Raises:
        Refused: a field is missing, or there is no such scope.
    """
    if hold.scope not in SCOPES or not hold.reason or not (hold.target or hold.scope == "tenant"):
        raise Refused(f"a hold needs a `reason`, a `scope` of {', '.join(SCOPES)} and, but for a tenant, a `target`")
    hold_id = f"hold-{new_event_id()}"
    _write(connection, hold, hold_id, "add", hold.reason, key_id, now_us)
    return LegalHold(hold.tenant, hold.scope, hold.target, hold.reason, hold_id, key_id, now_us)


def find_hold(connection: Connection, tenant: str | None, hold_id: str) -> LegalHold:
    """A hold that is in force.

    Raises:
        NotFound: there is none of that id.
    """
    hold = next((one for one in list_holds(connection, tenant) if one.hold_id == hold_id), None)
    if hold is None:
        raise NotFound(f"no hold {hold_id} is in force; `headrace audit hold list` lists them")
    return hold


def release_hold(connection: Connection, tenant: str | None, hold_id: str, reason: str, key_id: str, now_us: int) -> LegalHold:
    """End a hold, and put that on record.

    Raises:
        NotFound: no such hold is in force.
    """
    hold = find_hold(connection, tenant, hold_id)
    _write(connection, hold, hold_id, "release", reason, key_id, now_us)
    return LegalHold(hold.tenant, hold.scope, hold.target, hold.reason, hold_id, hold.key_id, hold.created_us, now_us)


def holds_on(holds: Iterable[LegalHold], tenant: str, found: Belongings) -> list[LegalHold]:
    """Those of ``holds`` that are on anything of ``found``."""
    named = {"agent": found.agents, "session": found.sessions, "trajectory": found.trajectories, "subject": found.subjects}
    return [h for h in holds if h.tenant == tenant and (h.scope == "tenant" or h.target in named.get(h.scope, ()))]


def is_on_hold() -> ColumnElement[bool]:
    """Of a row of ``trajectory``: a hold in force is on its tenant, on itself, or on an agent, session or subject of its events."""
    hold, end = legal_hold.alias("hold"), legal_hold.alias("hold_end")
    released = exists().where(end.c.tenant == hold.c.tenant, end.c.hold_id == hold.c.hold_id, end.c.action == "release")
    columns = {"agent": event.c.agent, "session": event.c.session_id, "subject": event.c.subject}
    named = or_(*(and_(hold.c.scope == scope, hold.c.target == column) for scope, column in columns.items()))
    its = (event.c.tenant == trajectory.c.tenant, event.c.trajectory_id == trajectory.c.trajectory_id)
    of_an_event = exists().where(*its, named).correlate_except(event)
    itself = and_(hold.c.scope == "trajectory", hold.c.target == trajectory.c.trajectory_id)
    concerned = or_(hold.c.scope == "tenant", itself, of_an_event)
    return exists().where(hold.c.tenant == trajectory.c.tenant, hold.c.action == "add", concerned, ~released)


def _write(connection: Connection, hold: LegalHold, hold_id: str, action: str, reason: str, key_id: str, now_us: int) -> None:
    row: dict[str, Any] = {"tenant": hold.tenant, "hold_id": hold_id, "action": action, "scope": hold.scope, "target": hold.target}
    row |= {"reason": reason, "key_id": key_id, "created_us": now_us}
    connection.execute(legal_hold.insert().values(row))
    append_rows(connection, legal_hold, [row])

"""Lists for reviewers: trajectories by what they filter by; the console's page of the quarantine. A read is on record first."""

from typing import Annotated

import msgspec
from fastapi import APIRouter, Query, Response
from sqlalchemy import func, select

from dataproxy.api.answers import json_answer
from dataproxy.api.identity import Caller, ServicesDep, require, scope
from dataproxy.api.on_record import Purpose, put_on_record
from dataproxy.client.trajectory_types import QuarantinePage, QuarantineRow, TrajectoryPage, TrajectoryQuery
from dataproxy.client.types import KeyInfo
from dataproxy.errors import Refused
from dataproxy.services import Services
from dataproxy.store.schema import event, quarantine
from dataproxy.store.trajectories import list_trajectories

router = APIRouter(prefix="/v1")
_MOST_TEXT = 200


@router.get("/trajectories")
def get_trajectories(
    services: ServicesDep,
    caller: Caller,
    purpose: Purpose,
    filters: Annotated[str, Query(alias="query")] = "{}",
    after: str = "",
    limit: int = Query(50, ge=1, le=200),
) -> Response:
    """A page of trajectories, newest start first; ``query`` is a ``TrajectoryQuery`` as JSON."""
    require(caller, "reviewer")
    try:
        query = msgspec.json.decode(filters, type=TrajectoryQuery)
    except msgspec.DecodeError as error:
        raise Refused(f"`query` is not what this call takes: {error}") from error
    return json_answer(page_of_trajectories(services, caller, query, after, limit, purpose))


def page_of_trajectories(
    services: Services, caller: KeyInfo, query: TrajectoryQuery, after: str, limit: int, purpose: str
) -> TrajectoryPage:
    """What ``caller`` asks for, once that is on record.

    Raises:
        Refused: the text is too long, or ``after`` is no cursor.
    """
    if len(query.text) > _MOST_TEXT:
        raise Refused(f"a text to look for has at most {_MOST_TEXT} characters")
    tenant = scope(caller)
    with services.database.read() as connection:
        page = list_trajectories(connection, tenant, query, session_names(services, tenant, query.session), after, limit)
    owners = {row.tenant for row in page.rows} or {caller.tenant}
    asked = msgspec.json.encode(query).decode()
    put_on_record(services, caller, owners, "trajectories", "" if asked == "{}" else asked, purpose)
    return page


def page_of_quarantine(services: Services, caller: KeyInfo, after: str, limit: int, purpose: str) -> QuarantinePage:
    """What ``caller`` asks for, once that is on record."""
    size = func.length(quarantine.c.sealed).label("size_bytes")
    same = (event.c.tenant == quarantine.c.tenant, event.c.event_id == quarantine.c.event_id)
    stored = select(event.c.event_id).where(*same).exists().label("stored")
    columns = (quarantine.c.tenant, quarantine.c.event_id, quarantine.c.reason, quarantine.c.created_us, size, stored)
    query = select(*columns).order_by(quarantine.c.event_id.desc()).limit(limit)
    if after:
        query = query.where(quarantine.c.event_id < after)
    if (tenant := scope(caller)) is not None:
        query = query.where(quarantine.c.tenant == tenant)
    with services.database.read() as connection:
        rows = [QuarantineRow(**row) for row in connection.execute(query).mappings()]
    put_on_record(services, caller, {row.tenant for row in rows} or {caller.tenant}, "quarantine", "", purpose)
    return QuarantinePage(rows, rows[-1].event_id if len(rows) == limit else None)


def session_names(services: Services, tenant: str | None, session: str | None) -> tuple[str, ...]:
    """A session by its id, or by the name that its agent gave it."""
    if session is None:
        return ()
    if tenant is None:
        return (session,)
    return (session, f"digest-{services.digests(tenant).of(b'session', session.encode()).hex()}")

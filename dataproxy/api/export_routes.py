"""Exports: events or trajectories as JSON lines, as many as there are. The read is on record, committed, before the first byte."""

from collections.abc import Iterator
from typing import Annotated

import msgspec
from fastapi import APIRouter, Depends
from fastapi.responses import StreamingResponse

from dataproxy.api.identity import Caller, ServicesDep, require, scope
from dataproxy.api.on_record import Purpose, put_on_record
from dataproxy.client.types import KeyInfo
from dataproxy.services import Services
from dataproxy.store.access import What
from dataproxy.store.exporting import ExportFilter, count, exported_events, exported_trajectories
from dataproxy.store.keys import OPERATOR
from dataproxy.store.scope import current_scope

router = APIRouter(prefix="/v1/export")
COUNT_HEADER = "x-headrace-count"
"""How many lines will come, about: for progress bars."""


def wanted_of(
    caller: Caller,
    agent: str | None = None,
    session: str | None = None,
    kind: str | None = None,
    since_us: int | None = None,
    until_us: int | None = None,
    tokens: bool = True,
) -> ExportFilter:
    """What the caller asks for, inside its own tenant; an agent's key sees its own agent alone."""
    require(caller, "reviewer", "agent")
    own = caller.agent if caller.role == "agent" else agent
    return ExportFilter(scope(caller), own, session, kind, since_us, until_us, tokens)


Wanted = Annotated[ExportFilter, Depends(wanted_of)]


@router.get("/events")
def export_events(services: ServicesDep, caller: Caller, wanted: Wanted, purpose: Purpose) -> StreamingResponse:
    """An ``ExportedEvent`` a line."""
    num = _on_record(services, caller, wanted, purpose, trajectories=False)
    return _lines(num, exported_events(services.database, current_scope(), wanted))


@router.get("/trajectories")
def export_trajectories(services: ServicesDep, caller: Caller, wanted: Wanted, purpose: Purpose) -> StreamingResponse:
    """An ``ExportedTrajectory`` a line."""
    num = _on_record(services, caller, wanted, purpose, trajectories=True)
    return _lines(num, exported_trajectories(services.database, current_scope(), wanted))


def _on_record(services: Services, caller: KeyInfo, wanted: ExportFilter, purpose: str, trajectories: bool) -> int:
    """Record the read for everybody whose data will be read."""
    with services.database.read() as connection:
        num, owners = count(connection, wanted, trajectories)
    narrow = [
        f"{n}={getattr(wanted, n)}" for n in ("agent", "session", "kind", "since_us", "until_us") if getattr(wanted, n) is not None
    ]
    what: What = "export of trajectories" if trajectories else "export of events"
    whose = owners or [wanted.tenant if wanted.tenant is not None else OPERATOR]
    put_on_record(services, caller, whose, what, " ".join(narrow), purpose)
    return num


def _lines(num: int, items: Iterator[msgspec.Struct]) -> StreamingResponse:
    lines = (msgspec.json.encode(item) + b"\n" for item in items)
    return StreamingResponse(lines, media_type="application/x-ndjson", headers={COUNT_HEADER: str(num)})

"""Redactions that somebody should look at: uncertain ones and samples. A mark says what is right, missed or false.

What follows from a mark (a rule from now on, an entry of the allow-list, where else it stands) is the API's doing.
"""

from typing import Annotated, Any

import msgspec
from fastapi import APIRouter, Query, Request, Response
from sqlalchemy import select

from dataproxy.api import review_routes
from dataproxy.api.identity import require, scope
from dataproxy.api.on_record import put_on_record
from dataproxy.client.vault_types import ReviewMark
from dataproxy.console.choices import chosen
from dataproxy.console.conversation import Reader
from dataproxy.console.plain import Budget
from dataproxy.console.rendering import render
from dataproxy.console.seat import Form, Seat, ServicesDep
from dataproxy.errors import NotFound, Refused
from dataproxy.services import Services
from dataproxy.store.reading import find_event
from dataproxy.store.schema import event

router = APIRouter()
_ROWS = 50
_QUEUES = ("low_confidence", "sample")
Text = Annotated[str, Query(max_length=200)]


@router.get("/review")
def get_queue(request: Request, services: ServicesDep, seat: Seat, why: Text = "", after: Text = "") -> Response:
    """Events to look at: those with an uncertain redaction, or samples drawn for audit."""
    require(seat.caller, "reviewer")
    why = chosen("why", why, _QUEUES) or _QUEUES[0]
    page = review_routes.page_of_review(services, seat.caller, why, after, _ROWS, seat.purpose)
    return render(request, "review.html", seat, page=page, why=why, after=after)


@router.get("/review/{event_id}")
def get_one(request: Request, services: ServicesDep, seat: Seat, event_id: str, tenant: Text = "") -> Response:
    """One event with each redacted value, to be judged."""
    require(seat.caller, "reviewer")
    return _one(request, services, seat, event_id, tenant, None)


@router.post("/review/{event_id}")
def post_mark(request: Request, services: ServicesDep, seat: Seat, form: Form, event_id: str) -> Response:
    """Mark it; the answer says which rule came of it and where else the same stands."""
    require(seat.caller, "reviewer")
    given: dict[str, Any] = {
        name: form.get(name, "").strip() for name in ("kind", "value", "pattern", "path", "surrogate", "reason")
    }
    start = form.get("start", "0")
    try:
        given |= {"verdict": form.get("verdict", ""), "start": int(start) if start.isdecimal() else 0}
        mark = msgspec.convert(given, ReviewMark)
    except msgspec.ValidationError as error:
        raise Refused("a mark is right, missed or false") from error
    done = review_routes.mark_event(services, seat.caller, event_id, mark)
    return _one(request, services, seat, event_id, form.get("tenant", ""), done, looked=mark.verdict == "missed")


def _one(request: Request, services: Services, seat: Seat, event_id: str, tenant: str, done: Any, looked: bool = False) -> Response:
    owner = scope(seat.caller) if scope(seat.caller) is not None else tenant or None
    with services.database.read() as connection:
        found = find_event(connection, owner, event_id)
        if found is None:
            raise NotFound(f"no event {event_id}")
        elsewhere = done.elsewhere[:_ROWS] if done is not None else []
        where = (event.c.tenant == found.tenant, event.c.event_id.in_(elsewhere))
        rows = connection.execute(select(event.c.event_id, event.c.trajectory_id).where(*where)).all() if elsewhere else []
    put_on_record(services, seat.caller, [found.tenant], "event", event_id, seat.purpose)
    turn = Reader(Budget()).turn(found)
    return render(request, "review_one.html", seat, found=found, turn=turn, outcome=done, elsewhere=rows, looked=looked)

"""The quarantine: what lies there, what one row holds in outline, and a second try after a rule or a tokenizer was mended.

Every opening is put on record before it happens. No answer holds a text of an exchange: nobody has redacted it yet.
"""

from typing import Annotated

from fastapi import APIRouter, Query, Response

from dataproxy.api.answers import json_answer, parse
from dataproxy.api.identity import Body, Caller, ServicesDep, require, scope
from dataproxy.api.on_record import Purpose, put_list_on_record, put_on_record
from dataproxy.capture.errors import KeyUnusable
from dataproxy.client.types import KeyInfo, QuarantineOpened, QuarantineRetried, QuarantineRetry
from dataproxy.drain.exchange import RawExchange
from dataproxy.drain.quarantine import Halves, open_quarantined
from dataproxy.errors import NotFound, Refused
from dataproxy.services import Services
from dataproxy.store.events import stored_events
from dataproxy.store.quarantined import list_quarantined, sealed_rows

router = APIRouter(prefix="/v1/quarantine")
_MOST = 500


@router.get("")
def get_list(
    services: ServicesDep,
    caller: Caller,
    purpose: Purpose,
    reason: Annotated[str, Query()] = "",
    limit: Annotated[int, Query(ge=1, le=_MOST)] = 100,
) -> Response:
    """What lies there, newest first, and what of it was stored since. Nothing is opened."""
    require(caller, "reviewer")
    with services.database.read() as connection:
        rows = list_quarantined(connection, scope(caller), limit, reason)
    put_list_on_record(services, caller, rows, "quarantine", purpose)
    return json_answer(rows)


@router.get("/{event_id}")
def get_one(services: ServicesDep, caller: Caller, event_id: str, purpose: Purpose) -> Response:
    """Open one row: whose call it was and of what size, and whether it could be governed now. On record."""
    require(caller)
    halves = _open(services, caller, [event_id], purpose).get(event_id)
    if halves is None:
        raise NotFound(f"nothing in the quarantine is named {event_id}; `headrace quarantine list` lists what is there")
    asked, got = halves.request, halves.response
    now = _whole({event_id: halves})
    failed = services.drain.reprocess(list(now.values()), try_only=True) if now else {event_id: "no_request"}
    with services.database.read() as connection:
        stored = event_id in stored_events(connection, [event_id])
    return json_answer(
        QuarantineOpened(
            event_id=event_id,
            agent=asked.agent if asked else "",
            dialect=asked.dialect if asked else "",
            request_bytes=len(asked.body) if asked else 0,
            answer_bytes=len(got.body) if got else 0,
            record_bytes=len(got.record) if got else 0,
            status=got.status if got else 0,
            delivery=got.delivery if got else "incomplete",
            worker=got.worker if got else "",
            stored=stored,
            reason_now="" if stored else failed.get(event_id, ""),
        )
    )


@router.post("/retry")
def post_retry(services: ServicesDep, caller: Caller, body: Body, purpose: Purpose) -> Response:
    """Govern rows again and store those that can be; the named ones, or the newest that are not stored. On record."""
    require(caller)
    given = parse(body, QuarantineRetry)
    if len(given.event_ids) > _MOST:
        raise Refused(f"at most {_MOST} rows are tried at once")
    named = given.event_ids or _waiting(services, caller, given.reason)
    halves = _open(services, caller, named, purpose)
    whole = _whole(halves)
    failed = services.drain.reprocess(list(whole.values()))
    failed |= {event_id: "no_request" for event_id in halves if event_id not in whole}
    return json_answer(QuarantineRetried(stored=sorted(whole.keys() - failed.keys()), failed=failed))


def _waiting(services: Services, caller: KeyInfo, reason: str) -> list[str]:
    with services.database.read() as connection:
        rows = list_quarantined(connection, scope(caller), _MOST, reason)
    return [row.event_id for row in rows if not row.stored]


def _open(services: Services, caller: KeyInfo, event_ids: list[str], purpose: str) -> dict[str, Halves]:
    """The halves of those rows that the caller may open, put on record first.

    Raises:
        Refused: the key that opens the quarantine is not here, or a row was changed.
    """
    with services.database.read() as connection:
        rows = sealed_rows(connection, scope(caller), event_ids)
    if not rows:
        return {}
    put_on_record(services, caller, {owner for owner, _ in rows.values()}, "quarantine", " ".join(sorted(rows))[:400], purpose)
    private = services.drain.quarantine_private()
    try:
        return {event_id: open_quarantined(private, owner, event_id, sealed) for event_id, (owner, sealed) in rows.items()}
    except KeyUnusable as error:
        raise Refused(f"a row of the quarantine cannot be opened: {error}") from error


def _whole(halves: dict[str, Halves]) -> dict[str, RawExchange]:
    return {event_id: RawExchange(h.request, h.response) for event_id, h in halves.items() if h.request is not None}

"""The quarantine: exchanges that could not be governed, sealed for the journal's private key, with a reason fit for counting."""

from typing import Any

import msgspec
from sqlalchemy import Connection, select

from dataproxy.capture.records import RequestHalf, ResponseHalf
from dataproxy.capture.sealing import seal, unseal
from dataproxy.drain.exchange import RawExchange
from dataproxy.ledger.rows import append_rows
from dataproxy.store.compression import compress, decompress
from dataproxy.store.dialect import insert_all
from dataproxy.store.schema import quarantine


class Halves(msgspec.Struct, frozen=True):
    """What a quarantined row holds; a half that cannot be read is missing."""

    request: RequestHalf | None
    response: ResponseHalf | None


def quarantine_row(raw: RawExchange, reason: str, public_key: bytes, now_us: int) -> dict[str, Any]:
    """The row of one exchange: nothing of it is readable but whose it is, when, and why."""
    request = raw.request
    return _row(request.tenant, request.event_id, Halves(request, raw.response), reason, public_key, now_us)


def orphan_row(tenant: str, response: ResponseHalf, public_key: bytes, now_us: int) -> dict[str, Any]:
    """The row of an answer whose request cannot be read."""
    return _row(tenant, response.event_id, Halves(None, response), "no_request", public_key, now_us)


def _row(tenant: str, event_id: str, halves: Halves, reason: str, public_key: bytes, now_us: int) -> dict[str, Any]:
    packed = compress(msgspec.msgpack.encode(halves))
    sealed = seal(public_key, packed, _context(tenant, event_id))
    return {"tenant": tenant, "event_id": event_id, "reason": reason, "sealed": sealed, "created_us": now_us}


def open_quarantined(private_key: bytes, tenant: str, event_id: str, sealed: bytes) -> Halves:
    """The halves in a row's ``sealed``, for a second try after the cause was mended.

    Raises:
        KeyUnusable: another key, or the row was changed.
    """
    packed = unseal(private_key, sealed, _context(tenant, event_id))
    return msgspec.msgpack.decode(decompress(packed), type=Halves)


def insert_quarantined(connection: Connection, rows: list[dict[str, Any]]) -> None:
    """Keep ``rows``; one that is there already stays."""
    ids = [row["event_id"] for row in rows]
    known = set(connection.execute(select(quarantine.c.event_id).where(quarantine.c.event_id.in_(ids))).scalars()) if ids else set()
    fresh = list({row["event_id"]: row for row in rows if row["event_id"] not in known}.values())
    insert_all(connection, quarantine, fresh)
    append_rows(connection, quarantine, fresh)


def _context(tenant: str, event_id: str) -> bytes:
    return f"quarantine\0{tenant}\0{event_id}".encode()

"""Takes a batch in: each event judged, redacted, placed; those that pass stored in one transaction; a receipt for each.

At least once from the sender, exactly once in the store: an id is stored once a tenant. Nothing is answered before it is durable.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import msgspec
from sqlalchemy import Connection

from atdp.events import Event
from atdp.ingest import Receipt
from dataproxy.ingest.govern import Governed, govern
from dataproxy.ingest.judge import Sender, Unacceptable, judge, judge_body
from dataproxy.ingest.places import Places
from dataproxy.redact import RedactionFailed
from dataproxy.services import Services
from dataproxy.store.consents import ConsentBook
from dataproxy.store.events import insert_events, next_position
from dataproxy.store.known import stored_among


def take_raw(services: Services, sender: Sender, items: Sequence[msgspec.Raw]) -> list[Receipt]:
    """Take events as they came in a body."""
    return _take(services, [partial(judge, item, sender) for item in items])


def take_bodies(services: Services, sender: Sender, bodies: Sequence[dict[str, Any]]) -> list[Receipt]:
    """Take events that this process made of something else, such as spans."""
    return _take(services, [partial(judge_body, body, sender) for body in bodies])


def _take(services: Services, items: Sequence[Callable[[], Event]]) -> list[Receipt]:
    with services.database.read() as connection:
        consents = ConsentBook.read(connection)
    receipts: dict[int, Receipt] = {}
    governed: dict[int, Governed] = {}
    for place, make in enumerate(items):
        try:
            governed[place] = _govern(services, make(), consents)
        except Unacceptable as error:
            receipts[place] = error.receipt
    if governed:
        with services.database.write() as connection:
            receipts |= _store(connection, governed, services.now_us())
    return [receipts[place] for place in range(len(items))]


def _govern(services: Services, item: Event, consents: ConsentBook) -> Governed:
    if not consents.may_record(item.tenant, item.agent):
        raise Unacceptable(item.event_id, "", "no consent to record is on record for this agent; see `headrace consent`")
    try:
        governed = govern(item, services.redactors.of(item.tenant), services.digests(item.tenant))
    except RedactionFailed as error:
        reason = f"a text could not be redacted for certain ({error.reason}); shorten or leave it out"
        raise Unacceptable(item.event_id, "", reason) from error
    for name in ("event_id", "agent"):
        if name in governed.changed:
            raise Unacceptable("", name, f"{name}: must not hold personal data or a secret")
    return governed


def _store(connection: Connection, governed: dict[int, Governed], now_us: int) -> dict[int, Receipt]:
    known = _known(connection, [item.stored.event for item in governed.values()])
    places, fresh, receipts = Places(connection, now_us), [], {}
    for at, item in governed.items():
        key = (item.stored.event.tenant, item.stored.event.event_id)
        receipts[at] = Receipt(key[1], "duplicate" if key in known else "stored")
        if key not in known:
            known.add(key)
            fresh.append(item.stored)
    placed = [(stored, places.of(stored.event)) for stored in fresh]
    insert_events(connection, placed, next_position(connection))
    places.flush()
    return receipts


def _known(connection: Connection, events: Sequence[Event]) -> set[tuple[str, str]]:
    """(tenant, event id) of those that are stored already."""
    known: set[tuple[str, str]] = set()
    for owner in sorted({item.tenant for item in events}):
        ids = [item.event_id for item in events if item.tenant == owner]
        known.update((owner, event_id) for event_id in stored_among(connection, owner, ids))
    return known

"""Search over redacted events: by what has a column in the database, and by text in what the page's candidates say.

A page looks at a bounded number of events and says where the next one goes on, so that no question holds the store for long.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, func, select

from atdp.events import Event
from dataproxy.store.reading import read_events
from dataproxy.store.schema import event, log_head

_PAGE = 200
_ALL = 2**63 - 1
MOST_SCANNED = 5000
"""Events looked at for one page."""


@dataclass(slots=True, frozen=True)
class SearchQuery:
    """``tenant`` None: of all; the others None: any. ``text`` is found in any string, whatever its case; times are of the start."""

    tenant: str | None
    text: str = ""
    kind: str | None = None
    agent: str | None = None
    sessions: tuple[str, ...] = ()
    since_us: int | None = None
    until_us: int | None = None


def search_events(
    connection: Connection, query: SearchQuery, after: int, limit: int, says: Callable[[Event], bool] | None = None
) -> tuple[list[Event], int | None]:
    """Up to ``limit`` events after position ``after``, and the position to go on from: None if there is nothing more to look at.

    ``says``, if given, decides in place of ``query.text`` which of the events that are looked at are meant.
    """
    found: list[Event] = []
    scanned = 0
    first, last = _window(connection, query)
    if last is None:
        return found, None
    after = max(after, first - 1)
    statement = select(event).where(*_where(query), event.c.position <= last).order_by(event.c.position)
    while scanned < MOST_SCANNED:
        page = read_events(connection, statement.where(event.c.position > after).limit(_PAGE))
        for position, item in page:
            after, scanned = position, scanned + 1
            if says(item) if says is not None else _says(item, query.text.casefold()):
                found.append(item)
                if len(found) == limit:
                    return found, after
        if len(page) < _PAGE:
            return found, None
    return found, after


def _window(connection: Connection, query: SearchQuery) -> tuple[int, int | None]:
    """The first and the last position at which an event of the times asked for stands; None: there is no such event.

    Events are stored in another order than they started in: an index over the times says where they stand, and nothing beside them
    is looked at. ``+ 0`` keeps a planner from walking through all positions instead, in the hope of an early hit.
    """
    if query.since_us is None and query.until_us is None:
        return 1, _ALL
    place = event.c.position + 0
    tenants = [query.tenant] if query.tenant is not None else connection.execute(select(log_head.c.tenant)).scalars().all()
    row = connection.execute(select(func.min(place), func.max(place)).where(event.c.tenant.in_(tenants), *_times(query))).one()
    return row[0] or 1, row[1]


def _times(query: SearchQuery) -> Iterator[Any]:
    if query.since_us is not None:
        yield event.c.started_us >= query.since_us
    if query.until_us is not None:
        yield event.c.started_us < query.until_us


def _where(query: SearchQuery) -> Iterator[Any]:
    exact = ((event.c.tenant, query.tenant), (event.c.kind, query.kind), (event.c.agent, query.agent))
    yield from (column == value for column, value in exact if value is not None)
    if query.sessions:
        yield event.c.session_id.in_(query.sessions)
    yield from _times(query)


def _says(item: Event, text: str) -> bool:
    parts = (item.o, item.h, item.a, item.y, item.m)
    return not text or any(text in leaf.casefold() for part in parts for leaf in strings_in(part))


def strings_in(value: Any) -> Iterator[str]:
    """Every string in ``value``, but for keys."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from strings_in(item)
    elif isinstance(value, list):
        for item in value:
            yield from strings_in(item)

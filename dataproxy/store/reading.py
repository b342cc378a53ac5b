"""Reading events back whole: contents put where the event names them, spans with the paths of the event.

Every caller records the read first (``dataproxy.store.access``); nothing here is called for another tenant's key.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any, Protocol

import msgspec
from sqlalchemy import Connection, Row, Select, select

from atdp.errors import InvalidEvent
from atdp.events import Event, Span
from dataproxy.store.compression import decompress
from dataproxy.store.events import Body
from dataproxy.store.schema import content, content_span, event, event_span

_Key = tuple[str, bytes]


class Names(Protocol):
    """What names contents: a ``Body``, or its two parts that do."""

    o: dict[str, Any]
    a: dict[str, Any]


def find_event(connection: Connection, tenant: str | None, event_id: str) -> Event | None:
    """The event, if it is ``tenant``'s (None: anybody's)."""
    found = _read(connection, _scoped(select(event), tenant).where(event.c.event_id == event_id))
    return found[0][1] if found else None


def list_events(
    connection: Connection, tenant: str | None, limit: int, after: int, session: str | None, kind: str | None
) -> list[tuple[int, Event]]:
    """(position, event) in the order of storing, after position ``after``."""
    query = _scoped(select(event), tenant).where(event.c.position > after)
    if session is not None:
        query = query.where(event.c.session_id == session)
    if kind is not None:
        query = query.where(event.c.kind == kind)
    return _read(connection, query.order_by(event.c.position).limit(limit))


def events_of(connection: Connection, tenant: str, trajectory_id: str) -> list[Event]:
    """A trajectory's events by ``seq``."""
    where = (event.c.tenant == tenant, event.c.trajectory_id == trajectory_id)
    return [item for _, item in _read(connection, select(event).where(*where).order_by(event.c.seq, event.c.position))]


def read_events(connection: Connection, query: Select[Any]) -> list[tuple[int, Event]]:
    """(position, event) of the rows of ``event`` that ``query`` selects, in its order."""
    return _read(connection, query)


def _scoped(query: Select[Any], tenant: str | None) -> Select[Any]:
    return query if tenant is None else query.where(event.c.tenant == tenant)


def _read(connection: Connection, query: Select[Any]) -> list[tuple[int, Event]]:
    rows = connection.execute(query).all()
    bodies = [body_of(row.body) for row in rows]
    named = {(row.tenant, digest) for row, body in zip(rows, bodies, strict=True) for digest, _ in named_contents(body)}
    contents, spans = _contents(connection, named), content_spans(connection, named)
    own = _event_spans(connection, [(row.tenant, row.event_id) for row in rows])
    return [(row.position, _event(row, body, contents, spans, own)) for row, body in zip(rows, bodies, strict=True)]


def body_of(packed: bytes) -> Body:
    """What an event's ``body`` column holds; an erased one holds nothing, and says so in ``m``."""
    return msgspec.json.decode(decompress(packed), type=Body) if packed else Body(m={"erased": True})


def named_contents(body: Names) -> Iterable[tuple[bytes, str]]:
    """(digest, JSON pointer) of every content that ``body`` names."""
    for i, name in enumerate(body.o.get("messages", [])):
        yield bytes.fromhex(name), f"/request/messages/{i}"
    if "tools" in body.o:
        yield bytes.fromhex(body.o["tools"]), "/request/tools"
    for i, name in enumerate(body.a.get("messages", [])):
        yield bytes.fromhex(name), f"/response/choices/{i}/message"


def _event(
    row: Row[Any],
    body: Body,
    contents: dict[_Key, Any],
    content_spans: dict[_Key, list[Span]],
    own: dict[tuple[str, str], list[Span]],
) -> Event:
    spans = list(own[row.tenant, row.event_id])
    for digest, path in named_contents(body):
        spans += [msgspec.structs.replace(span, path=path + span.path) for span in content_spans[row.tenant, digest]]

    def whole(part: dict[str, Any]) -> dict[str, Any]:
        filled = dict(part)
        if "messages" in part:
            filled["messages"] = [contents[row.tenant, bytes.fromhex(name)] for name in part["messages"]]
        if "tools" in part:
            filled["tools"] = contents[row.tenant, bytes.fromhex(part["tools"])]
        return filled

    return Event(
        event_id=row.event_id,
        tenant=row.tenant,
        agent=row.agent,
        subject=row.subject,
        session_id=row.session_id,
        lane=body.lane,
        group=body.group,
        trajectory_id=row.trajectory_id,
        seq=row.seq,
        parent_id=row.parent_id,
        kind=row.kind,
        started_at=row.started_us,
        ended_at=row.ended_us,
        boundary=row.boundary,
        o=whole(body.o),
        h=body.h,
        a=whole(body.a),
        y=body.y,
        r=body.r,
        m=body.m,
        spans=spans,
        extra=body.extra,
    )


def _contents(connection: Connection, keys: set[_Key]) -> dict[_Key, Any]:
    found = {}
    for tenant, digests in _by_tenant(keys):
        query = select(content).where(content.c.tenant == tenant, content.c.digest.in_(digests))
        for row in connection.execute(query):
            found[row.tenant, row.digest] = msgspec.json.decode(decompress(row.data))
    if len(found) != len(keys):
        raise InvalidEvent("an event names content that is not stored")
    return found


def content_spans(connection: Connection, keys: set[_Key]) -> dict[_Key, list[Span]]:
    """The spans of contents, by (tenant, digest), in their order; their paths start at the content."""
    found: dict[_Key, list[Span]] = defaultdict(list)
    for tenant, digests in _by_tenant(keys):
        where = (content_span.c.tenant == tenant, content_span.c.digest.in_(digests))
        for row in connection.execute(select(content_span).where(*where).order_by(content_span.c.ordinal)):
            found[row.tenant, row.digest].append(_span(row))
    return found


def _event_spans(connection: Connection, keys: Sequence[tuple[str, str]]) -> dict[tuple[str, str], list[Span]]:
    found: dict[tuple[str, str], list[Span]] = defaultdict(list)
    for tenant, ids in _by_tenant(keys):
        query = select(event_span).where(event_span.c.tenant == tenant, event_span.c.event_id.in_(ids))
        for row in connection.execute(query.order_by(event_span.c.ordinal)):
            found[row.tenant, row.event_id].append(_span(row))
    return found


def _by_tenant(keys: Iterable[tuple[str, Any]]) -> Iterable[tuple[str, list[Any]]]:
    grouped: dict[str, list[Any]] = defaultdict(list)
    for tenant, key in keys:
        grouped[tenant].append(key)
    for tenant, found in grouped.items():
        for start in range(0, len(found), 500):
            yield tenant, found[start : start + 500]


def _span(row: Row[Any]) -> Span:
    return Span(row.kind, row.detector, row.score, row.path, row.start, row.end, row.surrogate)

"""Events of tool calls, made of the results that came back with model calls and stored with them, in one transaction.

One event a call and session, however often the history is sent again. The event comes before the model call that brought the
result, and takes its ``seq``; its parent is the model call that asked for it.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec
from sqlalchemy import Connection, select

from atdp.events import Event
from dataproxy.assemble.calls import Placement
from dataproxy.digests import KeyedDigests
from dataproxy.ingest.tool_results import AskedCall, ToolResult
from dataproxy.store.compression import decompress
from dataproxy.store.events import Content, StoredEvent
from dataproxy.store.known import MESSAGES, stored_among
from dataproxy.store.reading import body_of, content_spans
from dataproxy.store.schema import content, event


@dataclass(slots=True, frozen=True)
class Brought:
    """A model call, placed, and the tool results that its request brought. What stands alone brings none."""

    event: StoredEvent
    placement: Placement | None
    results: Sequence[ToolResult]
    digests: KeyedDigests


@dataclass(slots=True)
class _Known:
    """Ids of tool events, by tenant: looked up once, and those of this batch."""

    connection: Connection
    looked_up: dict[str, set[str]] = field(default_factory=dict)
    stored: dict[str, set[str]] = field(default_factory=dict)

    def look_up(self, wanted: Iterable[tuple[str, str]]) -> None:
        """(tenant, id) of those that will be asked for."""
        by_tenant: dict[str, set[str]] = {}
        for owner, event_id in wanted:
            by_tenant.setdefault(owner, set()).add(event_id)
        for owner, ids in by_tenant.items():
            new = ids - self.looked_up.setdefault(owner, set())
            self.looked_up[owner] |= new
            self.stored.setdefault(owner, set()).update(stored_among(self.connection, owner, sorted(new)))

    def take(self, owner: str, event_id: str) -> bool:
        """Whether it is new; it is known from now on."""
        is_new = event_id not in self.stored.setdefault(owner, set())
        self.stored[owner].add(event_id)
        return is_new


def with_tool_calls(connection: Connection, batch: Sequence[Brought]) -> list[tuple[StoredEvent, Placement | None]]:
    """``batch`` in its order, each model call behind the events of the tool calls that it is the first to tell of."""
    known = _Known(connection)
    ids = [[_event_id(item, result) for result in item.results] for item in batch]
    known.look_up(_newest(batch, ids))
    known.look_up(_older(batch, ids, known))
    asked = {item.event.event.event_id: item.event for item in batch}
    found: list[tuple[StoredEvent, Placement | None]] = []
    for item, event_ids in zip(batch, ids, strict=True):
        if item.placement is not None:
            found += _new(connection, item, item.placement, event_ids, known, asked)
        found.append((item.event, item.placement))
    return found


def _new(
    connection: Connection,
    item: Brought,
    where: Placement,
    event_ids: Sequence[str],
    known: _Known,
    asked: dict[str, StoredEvent],
) -> list[tuple[StoredEvent, Placement | None]]:
    """Events of those results that ``item`` is the first to tell of."""
    found: list[tuple[StoredEvent, Placement | None]] = []
    owner = item.event.event.tenant
    for result, event_id in zip(item.results, event_ids, strict=True):
        if not known.take(owner, event_id):
            continue
        parent_id = where.parent_id if result.is_latest else None
        call = result.asked
        if not call.name and parent_id is not None:
            call = _asked_for(connection, owner, parent_id, asked.get(parent_id), result.call_id)
        found.append((_made(item, result, event_id, call), _placed(where, parent_id)))
    return found


def _event_id(item: Brought, result: ToolResult) -> str:
    session_id = item.placement.session_id if item.placement is not None else ""
    return f"tool-{item.digests.of(b'tool-event', session_id.encode() + result.key).hex()}"


def _newest(batch: Sequence[Brought], ids: Sequence[Sequence[str]]) -> Iterable[tuple[str, str]]:
    """What answers the last turn, and the last before it: if that is stored, all before it are."""
    for item, event_ids in zip(batch, ids, strict=True):
        older = [i for i, result in enumerate(item.results) if not result.is_latest]
        owner = item.event.event.tenant
        yield from ((owner, event_ids[i]) for i, result in enumerate(item.results) if result.is_latest)
        yield from ((owner, event_ids[i]) for i in older[-1:])


def _older(batch: Sequence[Brought], ids: Sequence[Sequence[str]], known: _Known) -> Iterable[tuple[str, str]]:
    """The histories whose last older result is not stored. Those that are known by it count as looked up and stored."""
    for item, event_ids in zip(batch, ids, strict=True):
        owner = item.event.event.tenant
        older = [event_ids[i] for i, result in enumerate(item.results) if not result.is_latest]
        if older and older[-1] in known.stored.get(owner, set()):
            known.stored[owner].update(older)
        else:
            yield from ((owner, event_id) for event_id in older)


def _asked_for(connection: Connection, owner: str, parent_id: str, in_batch: StoredEvent | None, call_id: str) -> AskedCall:
    """A call that stands in the stored answer alone: the agent sent the result, not the conversation."""
    for answer in _answers(connection, owner, parent_id, in_batch):
        message: dict[str, Any] = msgspec.json.decode(answer.data, type=dict)
        for place, call in enumerate(message.get("tool_calls") or []):
            if call.get("id") == call_id:
                return AskedCall.of(call.get("function"), answer.spans, place)
    return AskedCall()


def _answers(connection: Connection, owner: str, event_id: str, in_batch: StoredEvent | None) -> list[Content]:
    if in_batch is not None:
        named = {part.digest.hex(): part for part in in_batch.contents}
        return [named[name] for name in in_batch.event.a.get("messages", [])]
    query = select(event.c.body).where(event.c.tenant == owner, event.c.event_id == event_id)
    packed = connection.execute(query).scalar()
    if packed is None:
        return []
    digests = [bytes.fromhex(name) for name in body_of(packed).a.get("messages", [])]
    spans = content_spans(connection, {(owner, digest) for digest in digests})
    rows = connection.execute(select(content).where(content.c.tenant == owner, content.c.digest.in_(digests)))
    return [Content(row.digest, decompress(row.data), spans[owner, row.digest]) for row in rows]


def _made(item: Brought, result: ToolResult, event_id: str, call: AskedCall) -> StoredEvent:
    """The result is the message that the model was shown: it stands in ``o``, once in the store, as every message does.

    Name and arguments are copied out of the message that asked, and the spans of what was redacted in them with them.
    """
    brought_by = item.event.event
    error = result.error()
    made = Event(
        event_id=event_id,
        tenant=brought_by.tenant,
        agent=brought_by.agent,
        subject=brought_by.subject,
        kind="tool_call",
        started_at=brought_by.started_at,
        ended_at=brought_by.started_at,
        boundary=MESSAGES,
        o={"messages": [result.content.digest.hex()]},
        a={"name": call.name, "call_id": result.call_id, "arguments": call.arguments},
        y={"is_error": bool(error)} | ({"error": {"type": error}} if error else {}),
        m={"brought_by": brought_by.event_id},
    )
    return StoredEvent(event=made, contents=[result.content], spans=list(call.spans))


def _placed(of_call: Placement, parent_id: str | None) -> Placement:
    return Placement(of_call.session_id, of_call.trajectory_id, of_call.seq, parent_id, None, False, False)

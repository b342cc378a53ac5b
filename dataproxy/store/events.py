"""Writing events: rows, contents once, tokens, spans and decisions, and what is there already stays as it is."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec
from sqlalchemy import Connection, func, select

from atdp.events import Event, Span, TokenRecord
from dataproxy.admit import Decision
from dataproxy.assemble.calls import Placement
from dataproxy.store.compression import compress, compress_array
from dataproxy.store.dialect import add_to, insert_new
from dataproxy.store.schema import content, content_span, eligibility, event, event_span, quarantine, redaction_count, token_segment


@dataclass(slots=True, frozen=True)
class Content:
    """A redacted message or tool list, kept once a tenant. Span paths start at the content itself."""

    digest: bytes
    data: bytes
    spans: list[Span]


@dataclass(slots=True, frozen=True)
class Tokens:
    """The masked tokens of one choice; ``full_digest`` is that of the raw prompt and output ids."""

    record: TokenRecord
    temperature: float
    num_altered: int
    full_digest: bytes


@dataclass(slots=True, frozen=True)
class StoredEvent:
    """An event on its way to the store. In ``event``, contents are named by the hex of their digest."""

    event: Event
    model: str = ""
    status: int | None = None
    delivery: str = ""
    finish_reason: str = ""
    request_digest: bytes | None = None
    contents: list[Content] = field(default_factory=list)
    spans: list[Span] = field(default_factory=list)
    tokens: list[Tokens] = field(default_factory=list)
    decisions: dict[int, Decision] = field(default_factory=dict)
    policy: str = ""


class Body(msgspec.Struct, omit_defaults=True):
    """What an event's ``body`` column holds: its open-ended parts."""

    o: dict[str, Any] = {}
    h: dict[str, Any] = {}
    a: dict[str, Any] = {}
    y: dict[str, Any] = {}
    r: list[dict[str, Any]] = []
    m: dict[str, Any] = {}
    extra: dict[str, Any] = {}


def next_position(connection: Connection) -> int:
    """The position of the next event; the caller holds the write lock."""
    return (connection.execute(select(func.max(event.c.position))).scalar() or 0) + 1


def known_events(connection: Connection, event_ids: Sequence[str]) -> set[str]:
    """Those of ``event_ids`` that are stored or quarantined already."""
    known: set[str] = set()
    for start in range(0, len(event_ids), 500):
        chunk = event_ids[start : start + 500]
        for table in (event, quarantine):
            known.update(connection.execute(select(table.c.event_id).where(table.c.event_id.in_(chunk))).scalars())
    return known


def insert_events(connection: Connection, items: Sequence[tuple[StoredEvent, Placement | None]], first_position: int) -> None:
    """Store ``items`` in order, from ``first_position`` on."""
    insert_new(connection, event, [_event_row(item, place, first_position + i) for i, (item, place) in enumerate(items)])
    insert_new(connection, content, [_content_row(item, part) for item, _ in items for part in item.contents])
    insert_new(connection, content_span, list(_content_spans(items)))
    insert_new(connection, event_span, list(_event_spans(items)))
    for (owner, kind), num in Counter(_redactions(items)).items():
        add_to(connection, redaction_count, {"tenant": owner, "kind": kind, "num": num}, "num")
    insert_new(connection, token_segment, [_token_row(item, place, t) for item, place in items for t in item.tokens])
    insert_new(connection, eligibility, list(_decision_rows(items)))


def _redactions(items: Sequence[tuple[StoredEvent, Placement | None]]) -> Iterator[tuple[str, str]]:
    """(tenant, kind) of every value that was taken out, wherever it stood in its event."""
    for item, _ in items:
        yield from ((item.event.tenant, span.kind) for part in item.contents for span in part.spans)
        yield from ((item.event.tenant, span.kind) for span in item.spans)


def _event_row(item: StoredEvent, place: Placement | None, position: int) -> dict[str, Any]:
    e = item.event
    return {
        "tenant": e.tenant,
        "event_id": e.event_id,
        "position": position,
        "kind": e.kind,
        "agent": e.agent,
        "subject": e.subject,
        "session_id": place.session_id if place else e.session_id,
        "trajectory_id": place.trajectory_id if place else e.trajectory_id,
        "seq": place.seq if place else e.seq,
        "parent_id": place.parent_id if place else e.parent_id,
        "started_us": e.started_at,
        "ended_us": e.ended_at,
        "boundary": e.boundary,
        "model": item.model,
        "status": item.status,
        "delivery": item.delivery,
        "finish_reason": item.finish_reason,
        "request_digest": item.request_digest,
        "body": compress(msgspec.json.encode(Body(o=e.o, h=e.h, a=e.a, y=e.y, r=e.r, m=e.m, extra=e.extra))),
    }


def _content_row(item: StoredEvent, part: Content) -> dict[str, Any]:
    return {"tenant": item.event.tenant, "digest": part.digest, "data": compress(part.data)}


def _content_spans(items: Sequence[tuple[StoredEvent, Placement | None]]) -> Iterator[dict[str, Any]]:
    for item, _ in items:
        for part in item.contents:
            for ordinal, span in enumerate(part.spans):
                yield {"tenant": item.event.tenant, "digest": part.digest, "ordinal": ordinal} | msgspec.structs.asdict(span)


def _event_spans(items: Sequence[tuple[StoredEvent, Placement | None]]) -> Iterator[dict[str, Any]]:
    for item, _ in items:
        for ordinal, span in enumerate(item.spans):
            yield {"tenant": item.event.tenant, "event_id": item.event.event_id, "ordinal": ordinal} | msgspec.structs.asdict(span)


def _token_row(item: StoredEvent, place: Placement | None, tokens: Tokens) -> dict[str, Any]:
    record = tokens.record
    parent = place.token_parent if place else None
    return {
        "tenant": item.event.tenant,
        "event_id": item.event.event_id,
        "choice": record.choice,
        "trajectory_id": place.trajectory_id if place else "",
        "tokenizer": record.tokenizer,
        "finish_reason": record.finish_reason,
        "temperature": tokens.temperature,
        "num_prompt": len(record.prompt_ids) // 4,
        "num_output": len(record.output_ids) // 4,
        "num_altered": tokens.num_altered,
        "full_digest": tokens.full_digest,
        "parent_event": parent[0] if parent else None,
        "parent_choice": parent[1] if parent else None,
        "prompt_ids": compress_array(record.prompt_ids),
        "output_ids": compress_array(record.output_ids),
        "logprobs": compress_array(record.logprobs),
        "versions": compress_array(record.versions),
        "prompt_altered": compress_array(record.prompt_altered),
        "output_altered": compress_array(record.output_altered),
    }


def _decision_rows(items: Sequence[tuple[StoredEvent, Placement | None]]) -> Iterator[dict[str, Any]]:
    for item, _ in items:
        for choice, decision in item.decisions.items():
            yield {
                "tenant": item.event.tenant,
                "event_id": item.event.event_id,
                "choice": choice,
                "eligible": decision.eligible,
                "reason": decision.reason,
                "policy": item.policy,
                "decided_us": item.event.ended_at,
            }

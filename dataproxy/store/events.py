"""Writing events: rows, contents once, tokens, spans and decisions, and what is there already stays as it is."""

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec
from sqlalchemy import Connection

from atdp.events import Event, Span, TokenRecord
from dataproxy.admit import Decision
from dataproxy.assemble.calls import Placement
from dataproxy.ledger.content import ARRAYS, OwnedContent, OwnedTokens, event_content
from dataproxy.ledger.leaf import Leaf
from dataproxy.ledger.log import append, lock_logs
from dataproxy.store.compression import compress, compress_array, compress_flags
from dataproxy.store.dialect import add_to, find_all, insert_all, insert_new, next_event_position
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
    lane: str = "stable"
    group: str = ""
    extra: dict[str, Any] = {}


def next_position(connection: Connection) -> int:
    """The position of the next event; the caller holds the write lock."""
    return next_event_position(connection, event)


def known_events(connection: Connection, event_ids: Sequence[str]) -> set[str]:
    """Those of ``event_ids`` that are stored or quarantined already."""
    return {row[0] for table in (event, quarantine) for row in find_all(connection, table, ["event_id"], "event_id", event_ids)}


def stored_events(connection: Connection, event_ids: Sequence[str]) -> set[str]:
    """Those of ``event_ids`` that are stored."""
    return {row[0] for row in find_all(connection, event, ["event_id"], "event_id", event_ids)}


def insert_events(connection: Connection, items: Sequence[tuple[StoredEvent, Placement | None]], first_position: int) -> None:
    """Store ``items`` in order, from ``first_position`` on, none of them stored before, and put each in its tenant's log.

    Raises:
        IntegrityError: an event is stored already.
    """
    lock_logs(connection, {item.event.tenant for item, _ in items})
    rows = _Rows(_stored_contents(connection, items))
    for i, (item, place) in enumerate(items):
        rows.add(item, place, first_position + i)
    insert_all(connection, event, rows.events)
    insert_new(connection, content, rows.contents)
    insert_new(connection, content_span, rows.content_spans)
    insert_new(connection, event_span, rows.event_spans)
    for (owner, kind), num in rows.redactions.items():
        add_to(connection, redaction_count, {"tenant": owner, "kind": kind, "num": num}, "num")
    insert_new(connection, token_segment, rows.tokens)
    insert_new(connection, eligibility, rows.decisions)
    append(connection, rows.leaves)


def _stored_contents(connection: Connection, items: Sequence[tuple[StoredEvent, Placement | None]]) -> set[tuple[str, bytes]]:
    """(tenant, digest) of those contents of ``items`` that are stored already; the rest is packed and stored once."""
    named: dict[str, set[bytes]] = defaultdict(set)
    for item, _ in items:
        named[item.event.tenant].update(part.digest for part in item.contents)
    return {
        (owner, row[0])
        for owner, digests in named.items()
        for row in find_all(connection, content, ["digest"], "digest", digests, tenant=owner)
    }


class _Rows:
    """The rows of a batch, table by table, and its leaves. ``stored`` names the contents that are there already."""

    def __init__(self, stored: set[tuple[str, bytes]]) -> None:
        self._stored = stored
        self.events: list[dict[str, Any]] = []
        self.contents: list[dict[str, Any]] = []
        self.content_spans: list[dict[str, Any]] = []
        self.event_spans: list[dict[str, Any]] = []
        self.tokens: list[dict[str, Any]] = []
        self.decisions: list[dict[str, Any]] = []
        self.redactions: Counter[tuple[str, str]] = Counter()
        self.leaves: list[Leaf] = []

    def add(self, item: StoredEvent, place: Placement | None, position: int) -> None:
        """All that is stored of one event."""
        e = item.event
        body = msgspec.json.encode(Body(o=e.o, h=e.h, a=e.a, y=e.y, r=e.r, m=e.m, lane=e.lane, group=e.group, extra=e.extra))
        row = _event_row(item, place, position, body)
        spans, decisions, tokens = _span_rows(item), _decision_rows(item), [_token_row(item, place, one) for one in item.tokens]
        contents = self._new_contents(item)
        self.redactions.update((e.tenant, span.kind) for span in item.spans)
        self.redactions.update((e.tenant, span.kind) for part in item.contents for span in part.spans)
        self.events.append(row)
        self.event_spans += spans
        self.decisions += decisions
        self.tokens += tokens
        arrays = [[getattr(one.record, name) for name in ARRAYS] for one in item.tokens]
        owned = [OwnedTokens(*pair) for pair in zip(tokens, arrays, strict=True)]
        proven = event_content(row, body, spans, decisions, owned, contents)
        self.leaves.append(Leaf(e.tenant, "event", e.event_id, row["trajectory_id"], proven, position))

    def _new_contents(self, item: StoredEvent) -> list[OwnedContent]:
        """Those that nobody has stored yet: they are this event's to prove."""
        tenant, found = item.event.tenant, []
        for part in item.contents:
            if (tenant, part.digest) not in self._stored:
                self._stored.add((tenant, part.digest))
                spans = _content_span_rows(tenant, part)
                row = {"tenant": tenant, "digest": part.digest, "data": compress(part.data), "owner": item.event.event_id}
                self.contents.append(row)
                self.content_spans += spans
                found.append(OwnedContent(part.digest, part.data, spans))
        return found


def _event_row(item: StoredEvent, place: Placement | None, position: int, body: bytes) -> dict[str, Any]:
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
        "body": compress(body),
    }


def _content_span_rows(tenant: str, part: Content) -> list[dict[str, Any]]:
    named = {"tenant": tenant, "digest": part.digest}
    return [{**named, "ordinal": ordinal, **msgspec.structs.asdict(span)} for ordinal, span in enumerate(part.spans)]


def _span_rows(item: StoredEvent) -> list[dict[str, Any]]:
    named = {"tenant": item.event.tenant, "event_id": item.event.event_id}
    return [{**named, "ordinal": ordinal, **msgspec.structs.asdict(span)} for ordinal, span in enumerate(item.spans)]


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
        "versions": compress_flags(record.versions),
        "prompt_altered": compress_flags(record.prompt_altered),
        "output_altered": compress_flags(record.output_altered),
    }


def _decision_rows(item: StoredEvent) -> list[dict[str, Any]]:
    return [
        {
            "tenant": item.event.tenant,
            "event_id": item.event.event_id,
            "choice": choice,
            "eligible": decision.eligible,
            "reason": decision.reason,
            "policy": item.policy,
            "decided_us": item.event.ended_at,
        }
        for choice, decision in sorted(item.decisions.items())
    ]

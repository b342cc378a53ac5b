"""From a redacted exchange to an ATDP event: o messages, h reasoning, a answers, y outcome, m how it came about.

Every dialect comes in the same normal form, so the same call makes the same event.

Messages and tools become contents, named by digest in the event, so that a history that is resent every turn is stored once.
"""

from typing import Any

import msgspec

from atdp.events import Event, Span
from dataproxy.digests import KeyedDigests
from dataproxy.drain.exchange import ParsedExchange
from dataproxy.drain.identity import Identity, name_of
from dataproxy.redact import RedactedExchange
from dataproxy.store.events import Content, StoredEvent

_REASONING = ("reasoning_content", "reasoning")
_HIDDEN = frozenset((*_REASONING, "sealed_reasoning"))
NOT_KEPT = frozenset(("id", "model", "created", "object"))
"""Parts of an answer that no event holds: the call says the same. They need no redaction."""
_OWN_PLACE = NOT_KEPT | {"choices", "usage", "error", "text"}
_DECLARED = {"release": "header.x-headrace-release", "retrieval": "header.x-headrace-retrieval"}
"""Where an agent says which release of itself calls, and which snapshot of an index it searched."""
_MOST_OF_A_NAME = 128


class _Contents:
    """Collects contents and deals the spans out to them; what is left belongs to the event."""

    def __init__(self, digests: KeyedDigests, spans: list[Span]) -> None:
        self._digests = digests
        self._spans: dict[str, list[Span]] = {}
        for span in spans:
            self._spans.setdefault(_holder(span.path), []).append(span)
        self.found: list[Content] = []

    @property
    def left(self) -> list[Span]:
        """The spans that no content has taken."""
        return [span for spans in self._spans.values() for span in spans]

    def add(self, value: Any, path: str) -> str:
        """Keep ``value``, which stands at JSON pointer ``path``; gives its name."""
        data = msgspec.json.encode(value)
        digest = self._digests.of(b"content", data)
        mine = self._spans.pop(path, ())
        spans = [msgspec.structs.replace(span, path=span.path[len(path) :]) for span in mine]
        self.found.append(Content(digest, data, spans))
        return digest.hex()


def normalise(parsed: ParsedExchange, redacted: RedactedExchange, identity: Identity, digests: KeyedDigests) -> StoredEvent:
    """The event without tokens and decisions, which admission adds; its session is set when it is placed."""
    raw, response = parsed.raw.request, parsed.raw.response
    contents = _Contents(digests, redacted.spans)
    request = redacted.request if isinstance(redacted.request, dict) else {}
    answer = redacted.response if isinstance(redacted.response, dict) else {}
    o = _observed(request, contents)
    a, h, outcome = _acted(answer, contents, {tokens.choice: tokens.finish_reason for tokens in parsed.tokens})
    y: dict[str, Any] = {"status": response.status if response else 0, "delivery": parsed.delivery, **outcome}
    y |= {name: answer[name] for name in ("error", "text", "unparsed") if name in answer}
    if error := redacted.strings.get("error"):
        y["relay_error"] = error
    event = Event(
        event_id=raw.event_id,
        tenant=raw.tenant,
        agent=raw.agent,
        lane=response.lane if response else "stable",
        subject=identity.subject,
        kind="model_call",
        started_at=raw.started_us,
        ended_at=max(response.ended_us, raw.started_us) if response else raw.started_us,
        boundary="gateway",
        o=o,
        h=h,
        a=a,
        y=y,
        m=_metadata(parsed, redacted, identity, request, answer),
    )
    return StoredEvent(
        event=event,
        model=redacted.strings["model"],
        status=response.status if response else None,
        delivery=parsed.delivery,
        finish_reason=next(iter(outcome["finish_reasons"]), None) or "",
        request_digest=identity.request_digest,
        contents=contents.found,
        spans=contents.left,
    )


def _observed(request: dict[str, Any], contents: _Contents) -> dict[str, Any]:
    o: dict[str, Any] = {}
    messages = request.get("messages")
    if isinstance(messages, list):
        o["messages"] = [contents.add(message, f"/request/messages/{i}") for i, message in enumerate(messages)]
    if request.get("tools"):
        o["tools"] = contents.add(request["tools"], "/request/tools")
    return o


def _acted(
    answer: dict[str, Any], contents: _Contents, engine_reasons: dict[int, str | None]
) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    """(a, h, outcome) of all choices; reasoning goes to h, so that the message is the one that agents echo.

    The engine's word that an answer was cut off or aborted goes above the dialect's: a parser that found a tool call in an answer
    cut by length calls it finished. What the agent was told is kept where it differs.
    """
    messages, reasoning, sealed, reasons, given = [], [], [], [], []
    choices = answer.get("choices")
    for i, choice in enumerate(choices if isinstance(choices, list) else []):
        message = choice.get("message") if isinstance(choice, dict) else None
        if not isinstance(message, dict):
            continue
        reasoning.append("".join(str(message[name]) for name in _REASONING if message.get(name)))
        sealed.append(message.get("sealed_reasoning") or [])
        plain = {name: value for name, value in message.items() if name not in _HIDDEN}
        messages.append(contents.add(plain, f"/response/choices/{i}/message"))
        told, cut = choice.get("finish_reason"), engine_reasons.get(choice.get("index", i))
        reasons.append(cut if cut in ("length", "abort") and told is not None else told)
        given.append(choice.get("given_finish_reason", told))
    a = {"messages": messages} if messages else {}
    h = ({"reasoning": reasoning} if any(reasoning) else {}) | ({"sealed": sealed} if any(sealed) else {})
    outcome = {"finish_reasons": reasons} | ({"given_finish_reasons": given} if given != reasons else {})
    return a, h, outcome


def _metadata(
    parsed: ParsedExchange, redacted: RedactedExchange, identity: Identity, request: dict[str, Any], answer: dict[str, Any]
) -> dict[str, Any]:
    raw, response, record = parsed.raw.request, parsed.raw.response, parsed.record
    m: dict[str, Any] = {"previous_event_id": parsed.previous} if parsed.previous else {}
    m |= {
        "model": redacted.strings["model"],
        "completion_id": raw.completion_id,
        "dialect": raw.dialect,
        "path": redacted.strings["path"],
        "key_id": raw.key_id,
        "harness": identity.harness,
        "request": {name: value for name, value in request.items() if name not in ("messages", "tools")},
        "headers": {name.removeprefix("header."): v for name, v in redacted.strings.items() if name.startswith("header.")},
    }
    tools = request.get("tools")
    if isinstance(tools, list) and tools:
        m["tools"] = {name_of(tool) or str(n): version for n, (tool, version) in enumerate(zip(tools, identity.tools, strict=True))}
    for field, name in _DECLARED.items():
        if declared := redacted.strings.get(name, "").strip():
            m[field] = declared[:_MOST_OF_A_NAME]
    if redacted.version:
        m["redaction"] = redacted.version
    if raw.surrogates:
        m["pseudonyms"] = len(raw.surrogates)
    if response is not None:
        first = response.first_byte_us - raw.started_us if response.first_byte_us else None
        m |= {"worker": response.worker, "latency_us": {"first_byte": first, "total": response.ended_us - raw.started_us}}
    if record is not None:
        m |= {"engine": msgspec.to_builtins(record.engine), "sampling": record.settings()}
        m["versions"] = [choice.versions for choice in record.choices]
        m |= {"cost_usd": record.cost_usd} if record.cost_usd is not None else {}
    if usage := answer.get("usage") or (_counts(record.usage) if record is not None else None):
        m["usage"] = usage
    if unknown := {name: value for name, value in answer.items() if name not in _OWN_PLACE and name != "unparsed"}:
        m["response"] = unknown
    return m


def _counts(usage: dict[str, Any]) -> dict[str, Any]:
    """The numbers alone: nothing else of a record may pass unredacted."""
    return {name: value for name, value in usage.items() if isinstance(value, int | float)}


def _holder(path: str) -> str:
    """The content that a span at ``path`` lies in, if what stands there becomes one."""
    parts = path.split("/", 5)
    return "/".join(parts[: 3 if parts[1:3] == ["request", "tools"] else 5 if parts[1:3] == ["response", "choices"] else 4])

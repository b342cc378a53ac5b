"""Spans as bodies of events, for ``dataproxy.ingest.judge``: envelope, parent, session, and rewards out of evaluations.

A span's event is named by its trace and span, so a span that is exported twice is stored once.
"""

from collections.abc import Sequence
from typing import Any, Final

from atdp.ids import event_id_in
from dataproxy.client.types import Feedback
from dataproxy.ingest.otel import genai, openinference
from dataproxy.ingest.otel.spans import OtelSpan

_EVALUATION: Final = "gen_ai.evaluation.result"


def body_of(span: OtelSpan) -> dict[str, Any] | None:
    """The body of the event that ``span`` tells of; None where it is none of GenAI. Its parent may come later, or be no event."""
    if openinference.span_kind(span):
        parts = openinference.parts_of(span)
    elif genai.operation_of(span):
        parts = genai.parts_of(span)
    else:
        return None
    same_as = event_id_in(parts["m"]["completion_id"])
    m = parts["m"] | {"otel": _origin(span)} | ({"same_as": same_as} if same_as else {})
    thrown = next((event.attributes.get("exception.type") for event in span.events if event.name == "exception"), None)
    error = span.attributes.get("error.type") or thrown
    failed = {"is_error": True, "error": {"type": error or "error", "message": span.error or ""}}
    start_us = span.start_ns // 1000
    return {
        "event_id": event_id(span.trace_id, span.span_id),
        "parent_id": same_as or (event_id(span.trace_id, span.parent_id) if span.parent_id else None),
        "session_id": span.text("gen_ai.conversation.id", "session.id") or f"trace-{span.trace_id}",
        "subject": span.text("user.id", "enduser.id")[:128],
        "started_at": start_us,
        "ended_at": max(span.end_ns // 1000, start_us),
        **{name: parts[name] for name in ("kind", "o", "h", "a")},
        "y": parts["y"] | (failed if span.error is not None or error else {}),
        "r": [reward for reward, _ in _evaluations(span)],
        "m": {name: value for name, value in m.items() if value not in ("", {}, [])},
    }


def event_id(trace_id: str, span_id: str) -> str:
    """The event of a span."""
    return f"otel-{trace_id}-{span_id}"


def feedback_of(spans: Sequence[OtelSpan]) -> list[Feedback]:
    """Evaluations of answers that this gateway gave, as rewards of those."""
    found = []
    for span in spans:
        for number, (reward, response_id) in enumerate(_evaluations(span)):
            if event_id_in(response_id) and (reward.get("value") is not None or reward.get("label")):
                key = f"{event_id(span.trace_id, span.span_id)}-{number}"
                found.append(Feedback(target=response_id, source="judge", idempotency_key=key, **reward))
    return found


def _evaluations(span: OtelSpan) -> list[tuple[dict[str, Any], str]]:
    """(reward, id of the response that it is about)."""
    found = []
    for event in span.events:
        if event.name != _EVALUATION:
            continue
        values = {
            "name": event.attributes.get("gen_ai.evaluation.name") or "evaluation",
            "value": event.attributes.get("gen_ai.evaluation.score.value"),
            "label": event.attributes.get("gen_ai.evaluation.score.label"),
            "explanation": event.attributes.get("gen_ai.evaluation.explanation"),
        }
        about = event.attributes.get("gen_ai.response.id") or span.text("gen_ai.response.id")
        found.append(({name: value for name, value in values.items() if value is not None}, str(about)))
    return found


def _origin(span: OtelSpan) -> dict[str, Any]:
    found = {"trace_id": span.trace_id, "span_id": span.span_id, "parent_span_id": span.parent_id, "name": span.name}
    found |= {"scope": span.scope, "schema_url": span.schema_url, "service": span.text("service.name")}
    return {name: value for name, value in found.items() if value}

"""Events as OTLP spans (OTLP/JSON, the protocol's JSON form of protobuf), by the GenAI conventions; what they lack is ``atdp.*``.

A trajectory is a trace, an event a span in it, a parent its parent. ``atdp.ingest`` of the data proxy reads them back.
"""

from collections.abc import Iterable
from hashlib import blake2b
from typing import Any, Final

import msgspec

from atdp.events import Event
from atdp.exports.messages import arguments_of, calls_of, name_of, text_of
from atdp.exports.types import ExportedEvent

SEMCONV: Final = "https://opentelemetry.io/schemas/1.44.0"
"""The version of the semantic conventions that names come from."""
_OPERATIONS: Final = {"model_call": "chat", "tool_call": "execute_tool", "retrieval": "retrieval"}
_CLIENT, _INTERNAL, _ERROR = 3, 1, 2
_SCOPE: Final = {"name": "headrace.atdp", "version": "1.0"}


def trace_request(items: Iterable[ExportedEvent]) -> dict[str, Any]:
    """An ``ExportTraceServiceRequest`` with a span for each event, grouped by tenant and agent (the resource)."""
    groups: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for item in items:
        groups.setdefault((item.event.tenant, item.event.agent), []).append(span_of(item))
    return {
        "resourceSpans": [
            {
                "resource": {"attributes": _attributes({"service.name": agent or "unknown", "atdp.tenant": tenant})},
                "scopeSpans": [{"scope": _SCOPE, "spans": spans, "schemaUrl": SEMCONV}],
                "schemaUrl": SEMCONV,
            }
            for (tenant, agent), spans in groups.items()
        ]
    }


def span_of(item: ExportedEvent) -> dict[str, Any]:
    """The span of one event."""
    event = item.event
    operation = _OPERATIONS.get(event.kind, event.kind)
    about = str(event.a.get("name") or "") if event.kind == "tool_call" else str(event.m.get("model") or "")
    found = {"gen_ai.operation.name": operation, **_common(event), **_genai(event), **_atdp(item)}
    failed = bool(event.y.get("is_error")) or (isinstance(event.y.get("status"), int) and event.y["status"] >= 400)
    span = {
        "traceId": _digest(event.trajectory_id or event.event_id, 16),
        "spanId": _digest(event.event_id, 8),
        "name": f"{operation} {about}".strip(),
        "kind": _CLIENT if event.kind == "model_call" else _INTERNAL,
        "startTimeUnixNano": str(event.started_at * 1000),
        "endTimeUnixNano": str(event.ended_at * 1000),
        "attributes": _attributes(found),
        "events": [_evaluation(reward, event) for reward in event.r],
    }
    span |= {"parentSpanId": _digest(event.parent_id, 8)} if event.parent_id else {}
    return span | ({"status": {"code": _ERROR}} if failed else {})


def _common(event: Event) -> dict[str, Any]:
    engine = event.m.get("engine")
    usage = event.m.get("usage") or {}
    return {
        "gen_ai.conversation.id": event.session_id,
        "gen_ai.agent.name": event.agent,
        "gen_ai.provider.name": engine.get("name") if isinstance(engine, dict) else None,
        "gen_ai.request.model": event.m.get("model"),
        "gen_ai.response.model": event.m.get("model") if event.kind == "model_call" else None,
        "gen_ai.response.id": event.m.get("completion_id"),
        "gen_ai.usage.input_tokens": usage.get("prompt_tokens"),
        "gen_ai.usage.output_tokens": usage.get("completion_tokens"),
    }


def _genai(event: Event) -> dict[str, Any]:
    if event.kind == "model_call":
        reasoning, reasons = event.h.get("reasoning", []), event.y.get("finish_reasons", [])
        answers = [
            {
                **_message(answer, reasoning[i] if i < len(reasoning) else ""),
                "finish_reason": (reasons[i] if i < len(reasons) else "") or "",
            }
            for i, answer in enumerate(event.a.get("messages", []))
        ]
        return {
            "gen_ai.input.messages": _json([_message(message) for message in event.o.get("messages", [])]),
            "gen_ai.output.messages": _json(answers),
            "gen_ai.response.finish_reasons": [reason for reason in reasons if reason],
            "gen_ai.tool.definitions": _json(event.o["tools"]) if event.o.get("tools") else None,
        }
    if event.kind == "tool_call":
        shown = event.o.get("messages") or []
        result = event.y["result"] if "result" in event.y else text_of(shown[0].get("content")) if shown else None
        error = event.y.get("error")
        return {
            "gen_ai.tool.name": event.a.get("name"),
            "gen_ai.tool.call.id": event.a.get("call_id"),
            "gen_ai.tool.call.arguments": _text(event.a.get("arguments")),
            "gen_ai.tool.call.result": _text(result),
            "error.type": error.get("type") if isinstance(error, dict) else error,
        }
    return {}


def _atdp(item: ExportedEvent) -> dict[str, Any]:
    event = item.event
    found = {
        "atdp.version": event.atdp,
        "atdp.event_id": event.event_id,
        "atdp.kind": event.kind,
        "atdp.boundary": event.boundary,
        "atdp.trajectory_id": event.trajectory_id,
        "atdp.seq": event.seq,
        "atdp.subject": event.subject,
        "atdp.harness": event.m.get("harness"),
        "atdp.policy_versions": _json(event.m["versions"]) if event.m.get("versions") else None,
        "atdp.delivery": event.y.get("delivery"),
        "atdp.redactions": len(event.spans) or None,
        "atdp.tokens": _json(item.tokens) if item.tokens else None,
        "atdp.training": _json({str(k): v for k, v in item.decisions.items()}) if item.decisions else None,
    }
    if event.kind not in ("model_call", "tool_call"):
        found |= {f"atdp.{part}": _json(getattr(event, part)) for part in ("o", "h", "a", "y", "m") if getattr(event, part)}
    return found


def _message(message: Any, reasoning: str = "") -> dict[str, Any]:
    """A message as the conventions have it: a role and parts."""
    if not isinstance(message, dict):
        return {"role": "user", "parts": [{"type": "text", "content": text_of(message)}]}
    text = text_of(message.get("content"))
    if message.get("role") == "tool":
        return {"role": "tool", "parts": [{"type": "tool_call_response", "id": message.get("tool_call_id"), "response": text}]}
    parts: list[dict[str, Any]] = [{"type": "reasoning", "content": reasoning}] if reasoning else []
    parts += [{"type": "text", "content": text}] if text else []
    parts += [
        {"type": "tool_call", "id": call.get("id"), "name": name_of(call), "arguments": arguments_of(call)}
        for call in calls_of(message)
    ]
    return {"role": str(message.get("role") or "user"), "parts": parts}


def _evaluation(reward: dict[str, Any], event: Event) -> dict[str, Any]:
    found = {
        "gen_ai.evaluation.name": reward.get("name"),
        "gen_ai.evaluation.score.value": float(reward["value"]) if reward.get("value") is not None else None,
        "gen_ai.evaluation.score.label": reward.get("label"),
        "gen_ai.evaluation.explanation": reward.get("explanation"),
    }
    return {"name": "gen_ai.evaluation.result", "timeUnixNano": str(event.ended_at * 1000), "attributes": _attributes(found)}


def _attributes(values: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"key": key, "value": _value(value)} for key, value in values.items() if value not in (None, "", [])]


def _value(value: Any) -> dict[str, Any]:
    if isinstance(value, bool):
        return {"boolValue": value}
    if isinstance(value, int):
        return {"intValue": str(value)}
    if isinstance(value, float):
        return {"doubleValue": value}
    if isinstance(value, list):
        return {"arrayValue": {"values": [_value(item) for item in value]}}
    return {"stringValue": value if isinstance(value, str) else _json(value)}


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) or value is None else _json(value)


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()


def _digest(name: str, size: int) -> str:
    """A trace or span id for a name that is not secret."""
    return blake2b(name.encode(), digest_size=size).hexdigest()

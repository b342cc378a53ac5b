"""GenAI conventions → event. Names are those of semantic conventions 1.44.0; the older ``gen_ai.system``, ``gen_ai.prompt``,
``gen_ai.usage.prompt_tokens`` and span events are read as well."""

from typing import Any, Final

from dataproxy.ingest.otel.messages import of_events, of_indexed, of_instructions, of_parts
from dataproxy.ingest.otel.spans import OtelSpan, parsed

KINDS: Final = {
    **dict.fromkeys(("chat", "text_completion", "generate_content", "completion"), "model_call"),
    "execute_tool": "tool_call",
    "retrieval": "retrieval",
    "embeddings": "embeddings",
    **dict.fromkeys(("invoke_agent", "create_agent", "invoke_workflow", "plan"), "lifecycle"),
    **dict.fromkeys(("search_memory", "get_memory"), "memory_read"),
    **dict.fromkeys(("create_memory", "update_memory", "upsert_memory", "delete_memory"), "memory_write"),
}
_OLD_TYPES: Final = {"chat": "chat", "completion": "text_completion", "embedding": "embeddings"}
_USAGE: Final = {
    "prompt_tokens": ("gen_ai.usage.input_tokens", "gen_ai.usage.prompt_tokens"),
    "completion_tokens": ("gen_ai.usage.output_tokens", "gen_ai.usage.completion_tokens"),
    "reasoning_tokens": ("gen_ai.usage.reasoning.output_tokens", "gen_ai.usage.reasoning_tokens"),
    "cached_tokens": ("gen_ai.usage.cache_read.input_tokens", "gen_ai.usage.cache_read_input_tokens"),
}
_FINISH: Final = {"tool_call": "tool_calls"}
_REQUEST: Final = "gen_ai.request."
_TAKEN: Final = (
    *("gen_ai.input.messages", "gen_ai.output.messages", "gen_ai.system_instructions", "gen_ai.tool.", "gen_ai.prompt."),
    *("gen_ai.completion.", "gen_ai.usage.", "gen_ai.response.finish_reasons", "gen_ai.response.id", _REQUEST, "gen_ai.retrieval."),
    *("gen_ai.operation.name", "gen_ai.provider.name", "gen_ai.system", "gen_ai.response.model", "gen_ai.conversation.id"),
    *("error.type", "session.id", "user.id", "enduser.id", "llm.request.functions."),
)


def operation_of(span: OtelSpan) -> str:
    """The operation that a span says it is; "" where it is none of GenAI."""
    name = span.text("gen_ai.operation.name")
    if name:
        return name
    old = _OLD_TYPES.get(span.text("llm.request.type"), "")
    return old or ("chat" if "gen_ai.system" in span.attributes or "gen_ai.request.model" in span.attributes else "")


def parts_of(span: OtelSpan) -> dict[str, Any]:
    """kind, o, h, a, y, m of a GenAI span; what has no place in the event stands in ``m.attributes``."""
    kind = KINDS.get(operation_of(span), operation_of(span))
    o, h, a, y = _call(span) if kind == "model_call" else _other(span)
    left = {name: value for name, value in span.attributes.items() if not name.startswith(_TAKEN)}
    request = {name.removeprefix(_REQUEST): v for name, v in span.attributes.items() if name.startswith(_REQUEST)}
    m = {
        "model": span.text("gen_ai.response.model", "gen_ai.request.model"),
        "provider": span.text("gen_ai.provider.name", "gen_ai.system"),
        "completion_id": span.text("gen_ai.response.id"),
        "usage": {name: value for name, keys in _USAGE.items() if (value := _first(span, keys)) is not None},
        "request": request,
        "attributes": left,
    }
    return {"kind": kind, "o": o, "h": h, "a": a, "y": y, "m": m}


def _call(span: OtelSpan) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any], dict[str, Any]]:
    given = span.parsed("gen_ai.output.messages")
    asked_then, answered_then = of_events(span)
    asked = of_parts(span.parsed("gen_ai.input.messages")) or of_indexed(span, "gen_ai.prompt") or asked_then
    answered = of_parts(given) or of_indexed(span, "gen_ai.completion") or answered_then
    o: dict[str, Any] = {"messages": [*of_instructions(span.parsed("gen_ai.system_instructions")), *asked]}
    if tools := span.parsed("gen_ai.tool.definitions") or span.indexed("llm.request.functions"):
        o["tools"] = tools
    reasoning = [message.pop("reasoning_content", "") for message in answered]
    reasons = span.attributes.get("gen_ai.response.finish_reasons") or _reasons(given) or _indexed_reasons(span)
    reasons = [_FINISH.get(str(reason), str(reason)) for reason in reasons] if isinstance(reasons, list) else [str(reasons)]
    return o, {"reasoning": reasoning} if any(reasoning) else {}, {"messages": answered}, {"finish_reasons": reasons}


def _reasons(given: Any) -> list[Any]:
    return [m["finish_reason"] for m in given if isinstance(m, dict) and m.get("finish_reason")] if isinstance(given, list) else []


def _indexed_reasons(span: OtelSpan) -> list[Any]:
    return [flat["finish_reason"] for flat in span.indexed("gen_ai.completion") if flat.get("finish_reason")]


def _other(span: OtelSpan) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any], dict[str, Any]]:
    """Tools, retrieval and the rest: what was asked is ``a``, what came back ``y``, what it came from ``o``."""
    o = {"documents": span.parsed("gen_ai.retrieval.documents"), "messages": of_parts(span.parsed("gen_ai.input.messages"))}
    a = {
        "name": span.text("gen_ai.tool.name"),
        "call_id": span.text("gen_ai.tool.call.id"),
        "type": span.text("gen_ai.tool.type"),
        "arguments": span.parsed("gen_ai.tool.call.arguments"),
        "query": span.text("gen_ai.retrieval.query.text"),
        "messages": of_parts(span.parsed("gen_ai.output.messages")),
    }
    y = {"result": parsed(span.attributes.get("gen_ai.tool.call.result"))}
    return _filled(o), {}, _filled(a), _filled(y)


def _filled(values: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value not in (None, "", [])}


def _first(span: OtelSpan, names: tuple[str, ...]) -> Any:
    return next((span.attributes[name] for name in names if name in span.attributes), None)

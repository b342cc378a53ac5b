"""OpenInference's attributes → event (Arize's conventions: ``openinference.span.kind``, ``llm.*``, ``tool.*``, ``retrieval.*``)."""

from typing import Any, Final

from dataproxy.ingest.otel.messages import chat_message, of_events, tool_call
from dataproxy.ingest.otel.spans import OtelSpan, indexed, parsed

KINDS: Final = {
    "LLM": "model_call",
    "TOOL": "tool_call",
    "RETRIEVER": "retrieval",
    "RERANKER": "retrieval",
    "EMBEDDING": "embeddings",
    "AGENT": "lifecycle",
    "CHAIN": "lifecycle",
    "GUARDRAIL": "guardrail",
    "EVALUATOR": "evaluator",
    "PROMPT": "prompt",
}
_TAKEN: Final = (
    *("openinference.span.kind", "llm.input_messages.", "llm.output_messages.", "llm.token_count.", "llm.model_name", "llm.system"),
    *("llm.provider", "llm.invocation_parameters", "llm.tools.", "llm.finish_reason", "session.id", "user.id", "tool."),
    *("retrieval.documents.", "input.mime_type", "output.mime_type"),
)
_WHOLE: Final = ("input.value", "output.value")


def span_kind(span: OtelSpan) -> str:
    """The kind that OpenInference gave; "" where the span is none of its."""
    return span.text("openinference.span.kind").upper()


def parts_of(span: OtelSpan) -> dict[str, Any]:
    """kind, o, h, a, y, m of a span; what has no place in the event stands in ``m.attributes``."""
    kind = KINDS.get(span_kind(span), "lifecycle")
    o, a, y = {"model_call": _call, "tool_call": _tool, "retrieval": _retrieval}.get(kind, _other)(span)
    output = span.parsed("output.value")
    usage = {
        "prompt_tokens": span.attributes.get("llm.token_count.prompt"),
        "completion_tokens": span.attributes.get("llm.token_count.completion"),
        "reasoning_tokens": span.attributes.get("llm.token_count.completion_details.reasoning"),
        "cached_tokens": span.attributes.get("llm.token_count.prompt_details.cache_read"),
    }
    completion_id = output.get("id") if kind == "model_call" and isinstance(output, dict) else None
    m = {
        "model": span.text("llm.model_name"),
        "provider": span.text("llm.provider", "llm.system"),
        "completion_id": completion_id if isinstance(completion_id, str) else "",
        "usage": {name: value for name, value in usage.items() if value is not None},
        "request": span.parsed("llm.invocation_parameters") or {},
        "attributes": {name: v for name, v in span.attributes.items() if not name.startswith(_TAKEN) and name not in _WHOLE},
    }
    return {"kind": kind, "o": o, "h": {}, "a": a, "y": y, "m": m}


def _call(span: OtelSpan) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    asked, answered = (_messages(span, f"llm.{side}_messages") for side in ("input", "output"))
    asked_then, answered_then = of_events(span)
    o: dict[str, Any] = {"messages": asked or asked_then or _text(span, "input.value", "user")}
    tools = [parsed(flat.get("tool.json_schema")) for flat in span.indexed("llm.tools")]
    if tools:
        o["tools"] = tools
    reason = span.text("llm.finish_reason")
    return (
        o,
        {"messages": answered or answered_then or _text(span, "output.value", "assistant")},
        {"finish_reasons": [reason] if reason else []},
    )


def _tool(span: OtelSpan) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    asked = span.parsed("tool.parameters") if "tool.parameters" in span.attributes else span.parsed("input.value")
    a = {"name": span.text("tool.name") or span.name, "call_id": span.text("tool_call.id", "tool.id"), "arguments": asked}
    return {}, _filled(a), _filled({"result": span.parsed("output.value")})


def _retrieval(span: OtelSpan) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    documents = [
        {name.removeprefix("document."): parsed(value) for name, value in flat.items()}
        for flat in span.indexed("retrieval.documents")
    ]
    return {}, _filled({"query": span.attributes.get("input.value")}), _filled({"documents": documents})


def _other(span: OtelSpan) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    return _filled({"input": span.parsed("input.value")}), {}, _filled({"output": span.parsed("output.value")})


def _messages(span: OtelSpan, prefix: str) -> list[dict[str, Any]]:
    found = []
    for flat in span.indexed(prefix):
        content = flat.get("message.content")
        if content is None:
            parts = [_part(part) for part in indexed(flat, "message.contents")]
            content = parts or None
        message = chat_message(str(flat.get("message.role") or "user"), content)
        calls = [
            tool_call(c.get("tool_call.id"), c.get("tool_call.function.name"), c.get("tool_call.function.arguments"))
            for c in indexed(flat, "message.tool_calls")
        ]
        message |= {"tool_calls": calls} if calls else {}
        found.append(message | ({"tool_call_id": flat["message.tool_call_id"]} if flat.get("message.tool_call_id") else {}))
    return found


def _part(flat: dict[str, Any]) -> dict[str, Any]:
    part = {name.removeprefix("message_content."): value for name, value in flat.items()}
    if part.get("type") == "image":
        return {"type": "image_url", "image_url": {"url": part.get("image.image.url")}}
    return part


def _text(span: OtelSpan, name: str, role: str) -> list[dict[str, Any]]:
    value = span.attributes.get(name)
    return [chat_message(role, value)] if isinstance(value, str) and value else []


def _filled(values: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value not in (None, "", [])}

"""Messages of the conventions as chat messages, the normal form of the store.

Three forms: parts (GenAI, since 1.37), indexed attributes (``gen_ai.prompt.0.role``), span events (1.30 and before).
"""

from typing import Any, Final

import msgspec

from dataproxy.ingest.otel.spans import OtelSpan, indexed, parsed

_EVENT_ROLES: Final = {f"gen_ai.{role}.message": role for role in ("system", "user", "assistant", "tool")}


def of_parts(messages: Any) -> list[dict[str, Any]]:
    """``[{role, parts}]`` as chat messages; a result of a tool is a message of its own."""
    found: list[dict[str, Any]] = []
    for message in messages if isinstance(messages, list) else []:
        if isinstance(message, dict):
            found += _of_parts(str(message.get("role") or "user"), message)
    return found


def _of_parts(role: str, message: dict[str, Any]) -> list[dict[str, Any]]:
    parts = message.get("parts")
    if not isinstance(parts, list):
        return [chat_message(role, message.get("content"))]
    results = [part for part in parts if isinstance(part, dict) and part.get("type") == "tool_call_response"]
    found = [tool_message(part.get("id"), part.get("response", part.get("result"))) for part in results]
    content: list[dict[str, Any]] = []
    calls: list[dict[str, Any]] = []
    thoughts = ""
    for part in parts:
        kind = part.get("type") if isinstance(part, dict) else None
        if kind == "text":
            content.append({"type": "text", "text": as_text(part.get("content"))})
        elif kind == "reasoning":
            thoughts += as_text(part.get("content"))
        elif kind == "tool_call":
            calls.append(tool_call(part.get("id"), part.get("name"), part.get("arguments")))
        elif isinstance(part, dict) and kind != "tool_call_response":
            content.append(part)
    if content or calls or thoughts or not found:
        said = chat_message(role, _joined(content))
        said |= {"tool_calls": calls} if calls else {}
        found.append(said | ({"reasoning_content": thoughts} if thoughts else {}))
    return found


def of_instructions(value: Any) -> list[dict[str, Any]]:
    """``gen_ai.system_instructions``: parts, or a text."""
    if isinstance(value, str):
        return [chat_message("system", value)]
    return _of_parts("system", {"parts": value}) if isinstance(value, list) and value else []


def of_indexed(span: OtelSpan, prefix: str) -> list[dict[str, Any]]:
    """``<prefix>.<i>.{role, content, tool_calls.<j>.{id, name, arguments}, tool_call_id}``."""
    found = []
    for flat in span.indexed(prefix):
        message = chat_message(str(flat.get("role") or "user"), parsed_content(flat.get("content")))
        calls = [tool_call(c.get("id"), c.get("name"), c.get("arguments")) for c in indexed(flat, "tool_calls")]
        message |= {"tool_calls": calls} if calls else {}
        found.append(message | ({"tool_call_id": flat["tool_call_id"]} if flat.get("tool_call_id") else {}))
    return found


def of_events(span: OtelSpan) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """(input, output) out of span events of the older conventions."""
    asked: list[dict[str, Any]] = []
    answered: list[dict[str, Any]] = []
    for event in span.events:
        fields = event.attributes
        if role := _EVENT_ROLES.get(event.name):
            asked.append(_of_event(role, fields))
        elif event.name == "gen_ai.choice":
            message = parsed(fields.get("message"))
            answered.append(_of_event("assistant", message if isinstance(message, dict) else fields))
        elif event.name == "gen_ai.content.prompt":
            asked += _plain(parsed(fields.get("gen_ai.prompt")), "user")
        elif event.name == "gen_ai.content.completion":
            answered += _plain(parsed(fields.get("gen_ai.completion")), "assistant")
    return asked, answered


def _of_event(role: str, fields: dict[str, Any]) -> dict[str, Any]:
    message = chat_message(role, parsed_content(fields.get("content")))
    calls = parsed(fields.get("tool_calls"))
    message |= {"tool_calls": calls} if isinstance(calls, list) and calls else {}
    return message | ({"tool_call_id": fields["id"]} if role == "tool" and fields.get("id") else {})


def _plain(value: Any, role: str) -> list[dict[str, Any]]:
    """Chat messages as they are, or a text."""
    if isinstance(value, list):
        return [message if isinstance(message, dict) else chat_message(role, as_text(message)) for message in value]
    return [chat_message(role, as_text(value))] if value is not None else []


def chat_message(role: str, content: Any) -> dict[str, Any]:
    """A message."""
    return {"role": role, "content": content}


def tool_message(call_id: Any, result: Any) -> dict[str, Any]:
    """What a tool gave."""
    return {"role": "tool", "tool_call_id": as_text(call_id), "content": as_text(result)}


def tool_call(call_id: Any, name: Any, arguments: Any) -> dict[str, Any]:
    """A call of a function, arguments as a text."""
    return {"id": as_text(call_id), "type": "function", "function": {"name": as_text(name), "arguments": as_text(arguments)}}


def as_text(value: Any) -> str:
    """A text as it is, nothing as "", anything else as JSON."""
    return value if isinstance(value, str) else "" if value is None else msgspec.json.encode(value).decode()


def parsed_content(value: Any) -> Any:
    """Content that may be a list of parts in a text; a text that only looks like JSON stays a text."""
    read = parsed(value)
    return read if isinstance(read, list) and all(isinstance(part, dict) and "type" in part for part in read) and read else value


def _joined(content: list[dict[str, Any]]) -> Any:
    if all(set(part) == {"type", "text"} for part in content):
        return "".join(part["text"] for part in content) if content else None
    return content

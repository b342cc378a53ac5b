"""Messages as exports read them: texts out of parts, tool calls with their arguments as objects, what two turns have in common."""

from contextlib import suppress
from typing import Any

import msgspec

_encoder = msgspec.json.Encoder(order="deterministic")


def text_of(content: Any) -> str:
    """The text of a message's content; parts that are no text are named in brackets."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return "" if content is None else _encoder.encode(content).decode()
    return "".join(_text_of_part(part) for part in content)


def _text_of_part(part: Any) -> str:
    if isinstance(part, dict) and isinstance(part.get("text"), str):
        return str(part["text"])
    return f"[{part.get('type', 'part')}]" if isinstance(part, dict) else str(part)


def arguments_of(call: dict[str, Any]) -> dict[str, Any]:
    """A call's arguments as an object; a text that is none under ``_text``."""
    function = call.get("function")
    given = function.get("arguments") if isinstance(function, dict) else None
    if isinstance(given, str):
        with suppress(msgspec.DecodeError, RecursionError):
            given = msgspec.json.decode(given or "{}")
    return given if isinstance(given, dict) else {"_text": given} if given else {}


def calls_of(message: dict[str, Any]) -> list[dict[str, Any]]:
    """A message's tool calls."""
    calls = message.get("tool_calls")
    return [call for call in calls if isinstance(call, dict)] if isinstance(calls, list) else []


def name_of(call: dict[str, Any]) -> str:
    """The function that a call calls."""
    function = call.get("function")
    return str(function.get("name") or "") if isinstance(function, dict) else ""


def likeness(message: Any) -> bytes:
    """Equal for two messages that say the same, however they are written: role, text, calls, the call that is answered."""
    if not isinstance(message, dict):
        return _encoder.encode(message)
    calls = [[call.get("id"), name_of(call), arguments_of(call)] for call in calls_of(message)]
    return _encoder.encode([message.get("role"), text_of(message.get("content")).strip(), calls, message.get("tool_call_id") or ""])

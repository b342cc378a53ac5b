"""A turn and what came next, as texts: read from redacted events, for signals and judges. Pure."""

from dataclasses import dataclass
from typing import Any

import msgspec

from atdp.events import Event


@dataclass(slots=True, frozen=True)
class Turn:
    """``asked``: the messages since the answer before it; ``answer``: what was said and called; ``after``: what came next."""

    asked: str
    answer: str
    after: str


def turn_of(before: Event, later: Event) -> Turn:
    """The turn that ``before`` took, and what ``later``, the next call of its conversation, brought."""
    asked = "\n\n".join(_shown(message) for message in new_messages(before))
    answer = "\n\n".join(_shown(message) for message in before.a.get("messages", []) if isinstance(message, dict))
    return Turn(asked, answer, "\n\n".join(_shown(message) for message in new_messages(later)))


def new_messages(event: Event) -> list[dict[str, Any]]:
    """The messages of a call behind its last assistant's: what the agent's world said since then."""
    messages = [message for message in event.o.get("messages", []) if isinstance(message, dict)]
    turns = [i for i, message in enumerate(messages) if message.get("role") == "assistant"]
    return messages[turns[-1] + 1 :] if turns else messages


def text_of(message: dict[str, Any]) -> str:
    """The text of a message, its parts joined; what is no text is left out."""
    content = message.get("content")
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else []
    return "\n".join(part["text"] for part in parts if isinstance(part, dict) and isinstance(part.get("text"), str))


def result_of(event: Event) -> str:
    """What a tool call's event says came out of it."""
    texts = [text_of(message) for message in event.o.get("messages", []) if isinstance(message, dict)]
    said = event.y.get("result")
    if said is not None:
        texts.append(said if isinstance(said, str) else msgspec.json.encode(said).decode())
    return "\n".join(texts)


def _shown(message: dict[str, Any]) -> str:
    calls = message.get("tool_calls")
    lines = [f"[{message.get('role', 'unknown')}] {text_of(message)}"]
    for call in calls if isinstance(calls, list) else []:
        function = call.get("function") if isinstance(call, dict) else None
        if isinstance(function, dict):
            lines.append(f"[calls] {function.get('name')}({function.get('arguments')})")
    return "\n".join(lines)

"""Items of the Responses dialect as messages: what the assistant said, thought and called in a row is one message of it.

An item that no message has a field for (a search that the engine ran) is a part of the content of the message it stands in.
"""

from collections.abc import Sequence
from typing import Any

import msgspec

from dataproxy.drain.dialects.dialect import objects, text_of
from dataproxy.drain.dialects.parts import content_of, image_part, text_part, tool_call

_CALLS = ("function_call", "custom_tool_call")
_TEXTS = ("input_text", "output_text", "text", "summary_text", "reasoning_text")


class Turn:
    """The assistant's items in a row."""

    def __init__(self) -> None:
        self.parts: list[dict[str, Any]] = []
        self.fields: dict[str, Any] = {}
        self.began = False

    def add(self, item: dict[str, Any], kind: str) -> None:
        """Take in an item of the assistant."""
        self.began = True
        if kind == "reasoning":
            self._reason(item)
        elif kind == "message":
            self._say(item)
        elif kind not in _CALLS:
            self.parts.append(item)
        else:
            arguments = item.get("input") if kind == "custom_tool_call" else item.get("arguments")
            call_id, place = item.get("call_id") or item.get("id"), item.get("namespace")
            call = tool_call(call_id, item.get("name"), _text(arguments), namespace=place)
            self.fields.setdefault("tool_calls", []).append(call)

    def message(self) -> dict[str, Any]:
        """All of it as one message."""
        return {"role": "assistant", "content": content_of(self.parts)} | self.fields

    def _say(self, item: dict[str, Any]) -> None:
        parts = _parts(item.get("content"))
        refusals = [text_of(part.get("refusal")) for part in parts if part.get("type") == "refusal"]
        if refusals:
            self.fields["refusal"] = text_of(self.fields.get("refusal")) + "".join(refusals)
        self.parts += [part for part in parts if part.get("type") != "refusal"]
        for name, value in item.items():
            if name not in ("id", "type", "role", "content", "status", "phase") and value is not None:
                self.fields.setdefault(name, value)

    def _reason(self, item: dict[str, Any]) -> None:
        said = [text_of(part.get("text")) for part in objects(item.get("content")) or objects(item.get("summary"))]
        if any(said):
            self.fields["reasoning_content"] = text_of(self.fields.get("reasoning_content")) + "\n".join(said)
        if item.get("encrypted_content"):
            self.fields.setdefault("sealed_reasoning", []).append(item["encrypted_content"])


def messages_of(items: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """``items`` as messages, in order."""
    found: list[dict[str, Any]] = []
    turn = Turn()
    for item in items:
        kind = kind_of(item)
        if not _is_foreign(item, kind):
            turn.add(item, kind)
            continue
        if turn.began:
            found.append(turn.message())
            turn = Turn()
        found.append(_foreign(item, kind))
    return [*found, turn.message()] if turn.began else found


def kind_of(item: dict[str, Any]) -> str:
    """The item's type; messages may leave it out."""
    return text_of(item.get("type")) or "message"


def _is_foreign(item: dict[str, Any], kind: str) -> bool:
    """Not the assistant's."""
    return kind.endswith("_output") or kind == "item_reference" or (kind == "message" and item.get("role") != "assistant")


def _foreign(item: dict[str, Any], kind: str) -> dict[str, Any]:
    if kind == "message":
        plain = {k: v for k, v in item.items() if k not in ("id", "type", "status") and v is not None}
        return plain | ({"content": content_of(_parts(item["content"]))} if isinstance(item.get("content"), list) else {})
    if kind == "item_reference":
        return {"role": "item", "content": [item]}
    output = item.get("output")
    content = content_of(_parts(output)) if isinstance(output, list) else output if isinstance(output, str) else [item]
    return {"role": "tool", "tool_call_id": item.get("call_id"), "content": content}


def _parts(content: Any) -> list[dict[str, Any]]:
    if isinstance(content, str):
        return [{"type": "text", "text": content}] if content else []
    return [_part(part) for part in objects(content)]


def _part(part: dict[str, Any]) -> dict[str, Any]:
    kind = part.get("type")
    if kind in _TEXTS:
        return text_part(part.get("text"), part)
    if kind == "input_image" and part.get("image_url"):
        given = part["image_url"]
        return image_part(**given) if isinstance(given, dict) and "url" in given else image_part(given, detail=part.get("detail"))
    if kind == "input_file":
        return {"type": "file", "file": {name: value for name, value in part.items() if name != "type"}}
    return part


def _text(arguments: Any) -> str:
    return arguments if isinstance(arguments, str) else msgspec.json.encode(arguments if arguments is not None else {}).decode()

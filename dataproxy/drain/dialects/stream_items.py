"""The output items of a Responses stream that ended before its last event: as far as their deltas came."""

from typing import Any, Final

from dataproxy.drain.dialects.dialect import text_of

_CONTENT: Final = {
    "response.output_text.delta": ("output_text", "text"),
    "response.refusal.delta": ("refusal", "refusal"),
    "response.reasoning_text.delta": ("reasoning_text", "text"),
}
_FIELDS: Final = {"response.function_call_arguments.delta": "arguments", "response.custom_tool_call_input.delta": "input"}
_SUMMARY: Final = "response.reasoning_summary_text.delta"


class StreamItems:
    """Collects items by ``output_index``; one that is done replaces its pieces."""

    def __init__(self) -> None:
        self._items: dict[int, dict[str, Any]] = {}

    def __bool__(self) -> bool:
        return bool(self._items)

    def add(self, event: dict[str, Any]) -> None:
        """Take in one event; those that say nothing new of an item are passed over."""
        kind, index, item = text_of(event.get("type")), event.get("output_index"), event.get("item")
        if not isinstance(index, int):
            return
        if kind in ("response.output_item.added", "response.output_item.done") and isinstance(item, dict):
            self._items[index] = dict(item)
            return
        open_item = self._items.setdefault(index, {"type": "message", "role": "assistant"})
        if kind in _CONTENT:
            part, field = _CONTENT[kind]
            _append(open_item, "content", event.get("content_index", 0), part, field, text_of(event.get("delta")))
        elif kind == _SUMMARY:
            _append(open_item, "summary", event.get("summary_index", 0), "summary_text", "text", text_of(event.get("delta")))
        elif kind in _FIELDS:
            open_item[_FIELDS[kind]] = text_of(open_item.get(_FIELDS[kind])) + text_of(event.get("delta"))

    def found(self) -> list[dict[str, Any]]:
        """The items in order."""
        return [self._items[index] for index in sorted(self._items)]


def _append(item: dict[str, Any], where: str, index: int, part: str, field: str, delta: str) -> None:
    parts = item[where] = list(item.get(where) or [])
    while len(parts) <= index:
        parts.append({"type": part, field: ""})
    parts[index] = {**parts[index], field: text_of(parts[index].get(field)) + delta}

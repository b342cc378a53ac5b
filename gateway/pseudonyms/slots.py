"""Where an event of a stream holds a piece of text, and which texts an event ends, by dialect."""

from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass
from typing import Any

Event = dict[str, Any]
_CHAT_TEXTS = ("content", "reasoning_content", "reasoning", "refusal")
_MESSAGE_TEXTS = ("text", "thinking", "partial_json")


@dataclass(slots=True, frozen=True)
class Slot:
    """A piece of text in ``holder[name]``; pieces of one ``text`` follow each other over events. None: it is a whole text."""

    text: Hashable
    holder: Event
    name: str


@dataclass(slots=True, frozen=True)
class Ending:
    """The text that an event ends. Its rest goes into ``place`` of this event, or without one into an event like the last."""

    text: Hashable
    place: Callable[[str], None] | None = None


@dataclass(slots=True, frozen=True)
class StreamForm:
    """``slots`` and ``endings`` of an event; ``is_whole``: its strings are whole texts."""

    slots: Callable[[Event], Iterator[Slot]]
    endings: Callable[[Event, set[Hashable]], Iterator[Ending]]
    is_whole: Callable[[Event], bool]


def _chat_slots(event: Event) -> Iterator[Slot]:
    for choice in _dicts(event.get("choices")):
        index = choice.get("index", 0)
        if isinstance(choice.get("text"), str):  # completions
            yield Slot((index, "text"), choice, "text")
        delta = choice.get("delta")
        if not isinstance(delta, dict):
            continue
        for name in _CHAT_TEXTS:
            if isinstance(delta.get(name), str):
                yield Slot((index, name), delta, name)
        for call in _dicts(delta.get("tool_calls")):
            function = call.get("function")
            if isinstance(function, dict) and isinstance(function.get("name"), str):
                yield Slot(None, function, "name")
            if isinstance(function, dict) and isinstance(function.get("arguments"), str):
                yield Slot((index, "arguments", call.get("index", 0)), function, "arguments")


def _chat_endings(event: Event, held: set[Hashable]) -> Iterator[Ending]:
    """The event that says why a choice ended takes what is left of its texts."""
    for choice in _dicts(event.get("choices")):
        if choice.get("finish_reason") is None:
            continue
        for text in sorted(held, key=repr):
            if isinstance(text, tuple) and text[0] == choice.get("index", 0):
                yield Ending(text, _into_choice(choice, text))


def _into_choice(choice: Event, text: tuple[Any, ...]) -> Callable[[str], None]:
    def put(rest: str) -> None:
        if text[1] == "text":
            choice["text"] = (choice.get("text") or "") + rest
            return
        delta = choice["delta"] = choice.get("delta") or {}
        if len(text) == 2:
            delta[text[1]] = (delta.get(text[1]) or "") + rest
            return
        calls = delta["tool_calls"] = delta.get("tool_calls") or []
        call = next((call for call in _dicts(calls) if call.get("index") == text[2]), None)
        if call is None:
            calls.append(call := {"index": text[2], "function": {}})
        function = call["function"] = call.get("function") or {}
        function[text[1]] = (function.get(text[1]) or "") + rest

    return put


def _message_slots(event: Event) -> Iterator[Slot]:
    delta = event.get("delta")
    if event.get("type") == "content_block_delta" and isinstance(delta, dict):
        for name in _MESSAGE_TEXTS:
            if isinstance(delta.get(name), str):
                yield Slot((event.get("index"), name), delta, name)


def _message_endings(event: Event, held: set[Hashable]) -> Iterator[Ending]:
    if event.get("type") == "content_block_stop":
        yield from (Ending(text) for text in sorted(held, key=repr) if isinstance(text, tuple) and text[0] == event.get("index"))


def _item_of(event: Event) -> tuple[Any, ...]:
    part = event.get("content_index", event.get("summary_index"))
    return str(event.get("type")).rpartition(".")[0], event.get("item_id"), event.get("output_index"), part


def _response_slots(event: Event) -> Iterator[Slot]:
    if str(event.get("type")).endswith(".delta") and isinstance(event.get("delta"), str):
        yield Slot(_item_of(event), event, "delta")


def _response_endings(event: Event, held: set[Hashable]) -> Iterator[Ending]:
    kind = str(event.get("type"))
    ends_all = kind in ("response.output_item.done", "response.completed", "response.incomplete", "response.failed")
    for text in sorted(held, key=repr):
        if ends_all or (kind.endswith(".done") and text == _item_of(event)):
            yield Ending(text)


def _dicts(value: Any) -> list[Event]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


CHAT = StreamForm(_chat_slots, _chat_endings, lambda event: False)
MESSAGES = StreamForm(_message_slots, _message_endings, lambda event: event.get("type") == "content_block_start")
RESPONSES = StreamForm(_response_slots, _response_endings, lambda event: not str(event.get("type")).endswith(".delta"))
FORMS = {"chat": CHAT, "completions": CHAT, "messages": MESSAGES, "responses": RESPONSES}

"""Runs of a stream's events that differ in one piece of text only, put together before they are parsed.

An answer of a thousand tokens is a thousand events of which only a text differs; parsing each costs more than everything else that
the drain does to it. Only texts that the dialect itself would join are joined, so the answer is the one that it would have read.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final

import msgspec

from dataproxy.drain.dialects import Dialect, chat, completions, messages

_FIELDS = rb'(?:"\w+":(?:null|true|false|-?\d+|"[\w-]*"),)*'
_CHAT_TEXT = rb'"delta":\{%b(?:"(?:content|reasoning_content|reasoning)"|"tool_calls":\[\{%b"function":\{%b"arguments"):"'
_PIECES: Final[Mapping[Dialect, re.Pattern[bytes]]] = MappingProxyType(
    {
        chat: re.compile(_CHAT_TEXT % (_FIELDS, _FIELDS, _FIELDS)),
        completions: re.compile(rb'"choices":\[\{%b"text":"' % _FIELDS),
        messages: re.compile(rb'"delta":\{"type":"(?:text_delta","text|thinking_delta","thinking|input_json_delta","partial_json)":"'),
    }
)
_INSIDE: Final = re.compile(rb'(?:[^"\\]|\\.)*')


def parsed_events(dialect: Dialect, data: Iterable[bytes]) -> Iterator[dict[str, Any] | bytes]:
    """The events in ``data`` in order, runs as one; one that is no JSON as it is."""
    piece = _PIECES.get(dialect)
    run: list[bytes] = []
    head = tail = b""
    for event in data:
        if head and event.startswith(head) and event.endswith(tail) and _is_text(event, len(head), len(event) - len(tail)):
            run.append(event)
            continue
        yield from _parsed(run, head, tail)
        run, head = [event], b""
        if piece is not None and (found := piece.search(event)) is not None:
            end = _text_end(event, found.end())
            head, tail = event[: found.end()], event[end:]
    yield from _parsed(run, head, tail)


def _text_end(event: bytes, start: int) -> int:
    inside = _INSIDE.match(event, start)
    return inside.end() if inside is not None else start


def _is_text(event: bytes, start: int, end: int) -> bool:
    return start <= end and _INSIDE.fullmatch(event, start, end) is not None


def _parsed(run: list[bytes], head: bytes, tail: bytes) -> Iterator[dict[str, Any] | bytes]:
    if len(run) > 1:
        texts = [event[len(head) : len(event) - len(tail)] for event in run]
        joined = _decoded(head + b"".join(texts) + tail)
        if not isinstance(joined, bytes):
            yield joined
            return
    for event in run:
        decoded = _decoded(event)
        if isinstance(decoded, dict | bytes):
            yield decoded


def _decoded(event: bytes) -> Any:
    try:
        return msgspec.json.decode(event)
    except (msgspec.DecodeError, RecursionError):
        return event

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
_BLOCK_TEXT = rb'"delta":\{"type":"(?:text_delta","text|thinking_delta","thinking|input_json_delta","partial_json)":"'
_PIECES: Final[Mapping[Dialect, re.Pattern[bytes]]] = MappingProxyType(
    {
        chat: re.compile(_CHAT_TEXT % (_FIELDS, _FIELDS, _FIELDS)),
        completions: re.compile(rb'"choices":\[\{%b"text":"' % _FIELDS),
        messages: re.compile(_BLOCK_TEXT),
    }
)
_INSIDE: Final = re.compile(rb'(?:[^"\\]+|\\.)*+')
"""Of a JSON string. A backslash before a line feed is none of it."""


def parsed_events(dialect: Dialect, data: Iterable[bytes]) -> Iterator[dict[str, Any] | bytes]:
    """The events in ``data`` in order, runs as one; one that is no JSON as it is."""
    piece = _PIECES.get(dialect)
    run: list[bytes] = []
    head = tail = b""
    for event in data:
        if head and event.startswith(head) and event.endswith(tail):
            run.append(event)
            continue
        yield from _parsed(run, len(head), len(tail))
        run, head = [event], b""
        if piece is not None and (found := piece.search(event)) is not None:
            end = _text_end(event, found.end())
            head, tail = event[: found.end()], event[end:]
    yield from _parsed(run, len(head), len(tail))


def _text_end(event: bytes, start: int) -> int:
    inside = _INSIDE.match(event, start)
    return inside.end() if inside is not None else start


def _parsed(run: list[bytes], head: int, tail: int) -> Iterator[dict[str, Any] | bytes]:
    """``run`` as one event, if what is between ``head`` and ``tail`` bytes of each is the inside of a JSON string."""
    if len(run) > 1 and min(map(len, run)) >= head + tail:
        texts = b"\n".join([event[head : len(event) - tail] for event in run])  # no text has a raw line feed
        if _INSIDE.fullmatch(texts):
            joined = _decoded(run[0][:head] + texts.replace(b"\n", b"") + run[0][len(run[0]) - tail :])
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

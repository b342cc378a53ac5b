"""Runs of a stream's events that differ in one piece of text only, put together before they are parsed.

An answer of a thousand tokens is a thousand events of which only a text differs; looking at each costs more than everything else
that the drain does to it. Only texts that the dialect itself would join are joined, so the answer is the one that it would have
read.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

import msgspec

from dataproxy.drain.dialects import Dialect, chat, completions, messages
from dataproxy.drain.sse import event_data, with_line_feeds

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
_LINES: Final = re.compile(rb"(?:event: [^\n]*\n)?data: ")
_BETWEEN: Final = b"\n\n"
_MOST_LOOKS: Final = 32
"""Choices that take turns have no runs; looking for them in a long stream would take longer than reading it."""


@dataclass(slots=True, frozen=True)
class _Run:
    """Events that are ``head``, one of ``texts``, ``tail``; ``end`` is where the body goes on behind them."""

    head: bytes
    texts: list[bytes]
    tail: bytes
    end: int


def parsed_events(dialect: Dialect, body: bytes) -> Iterator[dict[str, Any] | bytes]:
    """The events of the stream ``body`` in order but for its end mark, runs as one; the data of one that is no JSON as it is."""
    piece = _PIECES.get(dialect)
    for stretch in _stretches(piece, with_line_feeds(body)) if piece is not None else (body,):
        if isinstance(stretch, _Run):
            yield from _joined(stretch)
        else:
            yield from _decoded_all(stretch)


def _stretches(piece: re.Pattern[bytes], body: bytes) -> Iterator[bytes | _Run]:
    """``body`` as runs and what lies between them."""
    start = at = 0
    for _ in range(_MOST_LOOKS):
        found = piece.search(body, at)
        if found is None:
            break
        before = body.rfind(_BETWEEN, start, found.start())
        begin = before + len(_BETWEEN) if before >= 0 else start
        run = _run(body, begin, found.end())
        if run is None:
            at = max(body.find(_BETWEEN, found.end()), found.end())
            continue
        if start < begin:
            yield body[start:begin]
        yield run
        start = at = run.end
    if start < len(body):
        yield body[start:]


def _run(body: bytes, begin: int, text: int) -> _Run | None:
    """The run whose first event stands at ``begin`` and its text at ``text``; None where the next event is another one."""
    inside, end = _INSIDE.match(body, text), body.find(_BETWEEN, text)
    if inside is None or not inside.end() < end or _LINES.match(body, begin) is None:
        return None
    head, tail = body[begin:text], body[inside.end() : end]
    if not body.startswith(head, end + len(_BETWEEN)):
        return None
    border = tail + _BETWEEN + head
    texts = body[text:].split(border)
    if _BETWEEN in b"".join(texts[:-1]):  # another event stands between two of them: the run ends before it
        broken = next(n for n, piece in enumerate(texts) if _BETWEEN in piece)
        texts = texts[: broken + 1]
    last = texts.pop().partition(_BETWEEN)[0]
    if last.endswith(tail):
        texts.append(last.removesuffix(tail))
    size = len(head) + len(tail) + sum(map(len, texts)) + len(border) * (len(texts) - 1)
    return _Run(head, texts, tail, begin + size + len(_BETWEEN))


def _joined(run: _Run) -> Iterator[dict[str, Any] | bytes]:
    """The run as one event, if its texts are the insides of JSON strings; else its events."""
    head = run.head[run.head.rfind(b"data: ", 0, run.head.find(b"{")) + 6 :]
    if _INSIDE.fullmatch(b"\n".join(run.texts)):  # no text has a raw line feed
        event = _decoded(head + b"".join(run.texts) + run.tail)
        if isinstance(event, dict):
            yield event
            return
    for text in run.texts:
        event = _decoded(head + text + run.tail)
        if isinstance(event, dict | bytes):
            yield event


def _decoded_all(stretch: bytes) -> Iterator[dict[str, Any] | bytes]:
    for data in event_data(stretch):
        if data.strip() != b"[DONE]":
            event = _decoded(data)
            if isinstance(event, dict | bytes):
                yield event


def _decoded(data: bytes) -> Any:
    try:
        return msgspec.json.decode(data)
    except (msgspec.DecodeError, RecursionError):
        return data

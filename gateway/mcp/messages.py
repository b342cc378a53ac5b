"""JSON-RPC in the bytes that pass: which requests go on record, and the answer to each, out of a JSON body or a stream."""

from contextlib import suppress
from typing import Any, Final

import msgspec

RECORDED: Final = frozenset(("tools/call", "resources/read"))
MAX_BYTES: Final = 4 << 20
"""Longest answer that is looked into; a longer one passes, and is on record without its content."""
_BOUNDARIES: Final = (b"\r\n\r\n", b"\n\n", b"\r\r")

Key = str
"""A request's id with its type: 1 and "1" are two."""


class Request(msgspec.Struct, frozen=True):
    """One request: its message as it came, or as part of a batch."""

    key: Key
    method: str
    body: bytes


class Reply(msgspec.Struct, frozen=True):
    """The answer to ``key``."""

    key: Key
    body: bytes
    is_error: bool


def requests_in(body: bytes) -> list[Request]:
    """The requests in a POST's body; notifications, answers and what is no JSON-RPC are none."""
    found = []
    for message in _messages(body):
        method, given = message.get("method"), message.get("id")
        if isinstance(method, str) and isinstance(given, str | int):
            found.append(Request(_key(given), method, msgspec.json.encode(message)))
    return found


class Watcher:
    """Looks for answers in what passes. ``feed`` gives those that became whole with a chunk."""

    def __init__(self, content_type: str) -> None:
        self._is_stream = content_type.startswith("text/event-stream")
        self._pending = b""
        self._lost = False

    @property
    def holds_back(self) -> bool:
        """Whether an answer is whole only at the end of the body."""
        return not self._is_stream

    def feed(self, data: bytes) -> list[Reply]:
        """The answers that end in ``data``."""
        if self._lost:
            return []
        self._pending += data
        found: list[Reply] = []
        while self._is_stream and (cut := self._boundary()) is not None:
            event, self._pending = self._pending[: cut[0]], self._pending[cut[1] :]
            found += _replies(_data_of(event))
        if len(self._pending) > MAX_BYTES:
            self._lost, self._pending = True, b""
        return found

    def end(self) -> list[Reply]:
        """The answers in what is left."""
        rest, self._pending = self._pending, b""
        return _replies(_data_of(rest) if self._is_stream else rest)

    def _boundary(self) -> tuple[int, int] | None:
        """(end of the first event, start of the next)."""
        found = [(at, at + len(mark)) for mark in _BOUNDARIES if (at := self._pending.find(mark)) >= 0]
        return min(found) if found else None


def _data_of(event: bytes) -> bytes:
    lines = event.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
    return b"\n".join(line[5:].removeprefix(b" ") for line in lines if line.startswith(b"data:"))


def _replies(body: bytes) -> list[Reply]:
    return [
        Reply(_key(message["id"]), msgspec.json.encode(message), "error" in message)
        for message in _messages(body)
        if "method" not in message and isinstance(message.get("id"), str | int) and ("result" in message or "error" in message)
    ]


def _messages(body: bytes) -> list[dict[str, Any]]:
    with suppress(msgspec.DecodeError, RecursionError):
        value = msgspec.json.decode(body)
        return [item for item in (value if isinstance(value, list) else [value]) if isinstance(item, dict)]
    return []


def _key(given: str | int) -> Key:
    return f"{type(given).__name__}:{given}"

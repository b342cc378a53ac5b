"""Where events wait until they have a receipt: in memory, or on disk, where they survive the process."""

from collections import deque
from typing import Protocol

from atdp.client.errors import BufferFull


class Queue(Protocol):
    """First in, first out; bounded by bytes. One thread at a time."""

    def put(self, event: bytes) -> None:
        """Take ``event`` (JSON on one line). Raises BufferFull."""

    def peek(self, max_events: int, max_bytes: int) -> list[bytes]:
        """The oldest events, one at least if there is any."""

    def drop(self, num_events: int) -> None:
        """The oldest ``num_events`` have their receipts."""

    def __len__(self) -> int:
        """How many wait."""

    def close(self) -> None:
        """Let go of what is open."""


class MemoryQueue:
    """Lost with the process."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._size = 0
        self._events: deque[bytes] = deque()

    def put(self, event: bytes) -> None:
        if self._size + len(event) > self._max_bytes:
            raise BufferFull(f"{len(self)} events wait to be sent, as many as may; this one is not taken")
        self._events.append(event)
        self._size += len(event)

    def peek(self, max_events: int, max_bytes: int) -> list[bytes]:
        found: list[bytes] = []
        size = 0
        for event in self._events:
            size += len(event)
            if len(found) == max_events or (found and size > max_bytes):
                break
            found.append(event)
        return found

    def drop(self, num_events: int) -> None:
        for _ in range(num_events):
            self._size -= len(self._events.popleft())

    def __len__(self) -> int:
        return len(self._events)

    def close(self) -> None:
        self._events.clear()

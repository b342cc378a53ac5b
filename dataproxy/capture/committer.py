"""Group commit: one thread seals, writes and syncs what the loop hands over, and wakes those who wait.

No window when idle: a record that somebody waits for is synced at once. When busy, everything that arrived during one sync shares
the next, after a short wait for more. Records that nobody waits for don't wake the thread before ``wake``: most go along with one that does. A failed write or
sync is fatal, because the kernel may have dropped the dirty pages: everybody waiting, and everybody later, hears of it.
"""

import asyncio
import queue
import time
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress

import msgspec

from atdp.faults import point
from dataproxy.capture.errors import JournalFailed
from dataproxy.capture.records import Half, encode_half
from dataproxy.capture.segment import Segment

_MAX_BATCH = 512
_SYNC_AHEAD_BYTES = 256 << 10
_MIN_COMPANY_S, _MAX_COMPANY_S = 0.0003, 0.002
"""A batch waits for company while the one before had some, half as long as that took: a sync costs as much CPU as sealing many
records.
"""


Done = Callable[[JournalFailed | None], None]
"""Told, on the loop, that a half is durable, or why it may not be."""


class Waiter:
    """Who waits for a half: told once, on its own loop."""

    __slots__ = ("_done", "loop")

    def __init__(self, loop: asyncio.AbstractEventLoop, done: Done) -> None:
        self.loop = loop
        self._done: Done | None = done

    def tell(self, failure: JournalFailed | None) -> None:
        """On the loop: the half is durable, or may not be."""
        done, self._done = self._done, None
        if done is not None:
            done(failure)

    def give_up(self) -> bool:
        """On the loop: wait no more; False if it has been told already."""
        waiting = self._done is not None
        self._done = None
        return waiting


class Entry(msgspec.Struct, frozen=True, gc=False):
    """One half on its way to the disk."""

    tenant: str
    half: Half
    size_bytes: int
    waiter: Waiter | None


class Committer:
    """Owns the open segment. ``put`` and ``check`` are for the loop; ``run`` is the thread."""

    def __init__(self, new_segment: Callable[[int], Segment], strict: bool, max_bytes: int, max_age_s: float) -> None:
        self.written_bytes = 0
        self._new_segment = new_segment
        self._strict = strict
        self._max_bytes = max_bytes
        self._max_age_s = max_age_s
        self._number = 0
        self._segment = new_segment(0)
        self._entries: deque[Entry] = deque()
        self._wakes: queue.SimpleQueue[None] = queue.SimpleQueue()
        self._woken = self._stopping = False
        self._company_s = 0.0
        self._failure: str | None = None

    @property
    def failed(self) -> bool:
        """Whether nothing more can be promised."""
        return self._failure is not None

    def check(self) -> None:
        """Raise JournalFailed if nothing more can be promised."""
        if self._failure is not None:
            raise JournalFailed(self._failure)

    def put(self, entry: Entry) -> None:
        """Queue a half, in order. If somebody waits for it, the thread is woken when the loop has done its round: not in the midst of
        it, when both would fight for the interpreter, and once for all that the round brings.
        """
        self._entries.append(entry)
        if entry.waiter is not None and not self._woken:
            entry.waiter.loop.call_soon(self.wake)

    def wake(self) -> None:
        """Let the thread commit what is queued."""
        if not self._woken:
            self._woken = True
            self._wakes.put(None)

    def stop(self) -> None:
        """No more entries: the thread writes what is queued and ends."""
        if self._failure is None:
            self._failure = "the journal is closed"
            self._stopping = True
            self._wakes.put(None)

    def run(self) -> None:
        """Commit batches until stopped or broken."""
        batch: list[Entry] = []
        try:
            while not (self._stopping and not self._entries):
                if not self._stopping:
                    self._sleep()
                    if self._company_s:
                        time.sleep(self._company_s)
                batch = self._next_batch()
                self._roll_if_due()
                self._commit(batch)
            self._segment.close()
        except BaseException as error:
            self._failure = f"the journal cannot be written ({error}); restart this process once the disk is well"
            _wake(batch + self._leftovers(), self._failure)
            self._segment.close()
            if not isinstance(error, OSError):
                raise

    def _sleep(self) -> None:
        """Until woken (each ``wake`` is one item of the queue), as long as the segment may stay open."""
        remaining = self._segment.created + self._max_age_s - time.monotonic()
        with suppress(queue.Empty):
            self._wakes.get(timeout=max(remaining, 0.001) if self._segment.index else None)

    def _next_batch(self) -> list[Entry]:
        """Everything queued by now."""
        self._woken = False  # whoever comes after this line wakes us again
        batch: list[Entry] = []
        with suppress(IndexError):
            while len(batch) < _MAX_BATCH:
                batch.append(self._entries.popleft())
        if self._entries:
            self.wake()
        return batch

    def _roll_if_due(self) -> None:
        segment = self._segment
        aged = time.monotonic() - segment.created > self._max_age_s
        if segment.index and (aged or segment.size > self._max_bytes):
            segment.sync()
            self._number += 1
            self._segment = self._new_segment(self._number)
            segment.close()

    def _commit(self, batch: list[Entry]) -> None:
        if not batch:
            return
        frames = [self._segment.frame(entry.tenant, encode_half(entry.half)) for entry in batch]
        num_waiting = sum(entry.waiter is not None for entry in batch)
        if num_waiting:
            point("gateway.before_fsync")
        ahead = self._segment.num_unsynced_bytes + sum(map(len, frames))
        began = time.monotonic()
        self._segment.write(frames, durably=self._strict and (num_waiting > 0 or ahead > _SYNC_AHEAD_BYTES))
        if num_waiting:
            took_s = time.monotonic() - began
            self._company_s = min(max(took_s / 2, _MIN_COMPANY_S), _MAX_COMPANY_S) if num_waiting > 1 else 0.0
        self.written_bytes += sum(entry.size_bytes for entry in batch)
        _wake(batch, None)

    def _leftovers(self) -> list[Entry]:
        entries = list(self._entries)
        self._entries.clear()
        return entries


def _wake(entries: Iterable[Entry], failure: str | None) -> None:
    """Resolve the waiters with one call into each loop."""
    loops: dict[asyncio.AbstractEventLoop, list[Waiter]] = {}
    for entry in entries:
        if entry.waiter is not None:
            loops.setdefault(entry.waiter.loop, []).append(entry.waiter)
    for loop, waiters in loops.items():
        with suppress(RuntimeError):  # a closed loop: nobody waits there any more
            loop.call_soon_threadsafe(_resolve, waiters, failure)


def _resolve(waiters: list[Waiter], failure: str | None) -> None:
    for waiter in waiters:
        waiter.tell(None if failure is None else JournalFailed(failure))

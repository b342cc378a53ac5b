"""The thread that owns the segments' files: it writes and syncs what the loop has sealed, and tells those who wait.

Group commit without a window: everything that was handed over during one sync shares the next. The thread holds the interpreter for
moments only, between two system calls; sealing is the loop's (``sealer``). A failed write or sync is fatal, because the kernel may
have dropped the dirty pages: everybody waiting, and everybody later, hears of it.
"""

import asyncio
import queue
from collections.abc import Callable, Iterable
from contextlib import suppress

import msgspec

from atdp.faults import point
from dataproxy.capture.errors import JournalFailed
from dataproxy.capture.segment import Segment

_MAX_ITEMS = 512
_SYNC_AHEAD_BYTES = 256 << 10

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


class Batch(msgspec.Struct, frozen=True):
    """Sealed frames of one segment, in order, and who waits for them. ``size_bytes`` is what they held before they were sealed."""

    segment: Segment
    frames: list[bytes]
    waiters: list[Waiter]
    size_bytes: int


class Opening(msgspec.Struct, frozen=True):
    """A new segment is wanted; ``then`` gets it, on ``loop``."""

    number: int
    loop: asyncio.AbstractEventLoop
    then: Callable[[Segment], None]


class Closing(msgspec.Struct, frozen=True):
    """No frames of ``segment`` will follow."""

    segment: Segment


class Committer:
    """``run`` is the thread; everything else is for the loop."""

    def __init__(self, new_segment: Callable[[int], Segment], strict: bool) -> None:
        """Open the first segment.

        Raises:
            OSError: the disk refuses.
        """
        self.written_bytes = 0
        self.first = new_segment(0)
        self._new_segment = new_segment
        self._strict = strict
        self._segments = {self.first}
        self._items: queue.SimpleQueue[Batch | Opening | Closing | None] = queue.SimpleQueue()
        self._failure: str | None = None

    @property
    def failure(self) -> str | None:
        """Why nothing more can be promised; None while all is well."""
        return self._failure

    def check(self) -> None:
        """Raise JournalFailed if nothing more can be promised."""
        if self._failure is not None:
            raise JournalFailed(self._failure)

    def put(self, item: Batch | Opening | Closing) -> None:
        """Hand over, in order."""
        self._items.put(item)
        if self._failure is not None and isinstance(item, Batch):  # the thread may have emptied its queue before this came in
            tell_all(item.waiters, self._failure)

    def stop(self) -> None:
        """Nothing more will be handed over: the thread writes what is queued and ends."""
        if self._failure is None:
            self._failure = "the journal is closed"
            self._items.put(None)

    def run(self) -> None:
        """Work until stopped or broken."""
        items: list[Batch | Opening | Closing] = []
        try:
            running = True
            while running:
                items, running = self._take()
                self._work(items)
        except BaseException as error:
            self._failure = f"the journal cannot be written ({error}); restart this process once the disk is well"
            for item in [*items, *self._take_queued()]:
                if isinstance(item, Batch):
                    tell_all(item.waiters, self._failure)
            if not isinstance(error, OSError):
                raise
        finally:
            for segment in self._segments:
                segment.close()

    def _take(self) -> tuple[list[Batch | Opening | Closing], bool]:
        """(everything queued by now, whether more may come); waits for the first."""
        first = self._items.get()
        rest = self._take_queued() if first is not None else []
        items = [item for item in (first, *rest) if item is not None]
        return items, len(items) == len(rest) + 1

    def _take_queued(self) -> list[Batch | Opening | Closing | None]:
        items: list[Batch | Opening | Closing | None] = []
        with suppress(queue.Empty):
            while len(items) < _MAX_ITEMS:
                items.append(self._items.get_nowait())
        return items

    def _work(self, items: list[Batch | Opening | Closing]) -> None:
        batches: list[Batch] = []
        for item in items:
            if batches and not (isinstance(item, Batch) and item.segment is batches[0].segment):
                self._commit(batches)
                batches = []
            if isinstance(item, Batch):
                batches.append(item)
            elif isinstance(item, Opening):
                self._open(item)
            else:
                self._close(item.segment)
        if batches:
            self._commit(batches)

    def _commit(self, batches: list[Batch]) -> None:
        """Write ``batches``, all of one segment, in one piece."""
        segment = batches[0].segment
        frames = [frame for batch in batches for frame in batch.frames]
        waiters = [waiter for batch in batches for waiter in batch.waiters]
        if waiters:
            point("gateway.before_fsync")
        ahead = segment.num_unsynced_bytes + sum(map(len, frames))
        segment.write(frames, durably=self._strict and (bool(waiters) or ahead > _SYNC_AHEAD_BYTES))
        self.written_bytes += sum(batch.size_bytes for batch in batches)
        tell_all(waiters, None)

    def _open(self, opening: Opening) -> None:
        segment = self._new_segment(opening.number)
        self._segments.add(segment)
        with suppress(RuntimeError):  # a closed loop: nobody writes there any more
            opening.loop.call_soon_threadsafe(opening.then, segment)

    def _close(self, segment: Segment) -> None:
        segment.sync()
        segment.close()
        self._segments.discard(segment)


def tell_all(waiters: Iterable[Waiter], failure: str | None) -> None:
    """Tell ``waiters`` with one call into each loop."""
    loops: dict[asyncio.AbstractEventLoop, list[Waiter]] = {}
    for waiter in waiters:
        loops.setdefault(waiter.loop, []).append(waiter)
    for loop, those in loops.items():
        with suppress(RuntimeError):  # a closed loop: nobody waits there any more
            loop.call_soon_threadsafe(_tell, those, failure)


def _tell(waiters: list[Waiter], failure: str | None) -> None:
    for waiter in waiters:
        waiter.tell(None if failure is None else JournalFailed(failure))

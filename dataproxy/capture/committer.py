"""The thread that owns the segments' files: it writes and syncs what the loop has sealed, and tells those who wait.

Everything that was handed over during one sync shares the next. The thread holds the interpreter for moments only, between two
system calls; sealing is the loop's (``sealer``). A failed write or sync is fatal, because the kernel may have dropped the dirty
pages: everybody waiting, and everybody later, hears of it.
"""

import asyncio
import queue
from collections.abc import Callable
from contextlib import suppress

import msgspec

from atdp.faults import point
from dataproxy.capture.errors import JournalFailed
from dataproxy.capture.segment import Segment

_MAX_ITEMS = 512
_SYNC_AHEAD_BYTES = 256 << 10

Done = Callable[[JournalFailed | None], None]
"""Told, on the loop, that a half is durable, or why it may not be."""


class Batch:
    """Sealed frames of one segment, in order, and who waits for them, on ``loop``. ``size_bytes`` is what was sealed."""

    __slots__ = ("_dones", "_then", "frames", "loop", "segment", "size_bytes")

    def __init__(
        self,
        segment: Segment,
        frames: list[bytearray],
        dones: list[Done],
        size_bytes: int,
        loop: asyncio.AbstractEventLoop,
        then: Callable[[], None],
    ) -> None:
        self.segment = segment
        self.frames = frames
        self.size_bytes = size_bytes
        self.loop = loop
        self._dones = dones
        self._then = then

    @property
    def awaited(self) -> bool:
        """Whether anybody waits."""
        return bool(self._dones)

    def tell(self, failure: str | None) -> None:
        """On the loop: all of it is durable, or may not be. Those who wait hear it once."""
        dones, self._dones = self._dones, []
        for done in dones:
            done(None if failure is None else JournalFailed(failure))
        if dones:
            self._then()


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
            tell(item, self._failure)

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
                    tell(item, self._failure)
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
        while len(items) < _MAX_ITEMS and not self._items.empty():
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
        awaited = [batch for batch in batches if batch.awaited]
        if awaited:
            point("gateway.before_fsync")
        ahead = segment.num_unsynced_bytes + sum(map(len, frames))
        segment.write(frames, durably=self._strict and (bool(awaited) or ahead > _SYNC_AHEAD_BYTES))
        self.written_bytes += sum(batch.size_bytes for batch in batches)
        for batch in awaited:
            tell(batch, None)

    def _open(self, opening: Opening) -> None:
        segment = self._new_segment(opening.number)
        self._segments.add(segment)
        with suppress(RuntimeError):  # a closed loop: nobody writes there any more
            opening.loop.call_soon_threadsafe(opening.then, segment)

    def _close(self, segment: Segment) -> None:
        segment.sync()
        segment.close()
        self._segments.discard(segment)


def tell(batch: Batch, failure: str | None) -> None:
    """Tell those who wait for ``batch`` with one call into their loop."""
    with suppress(RuntimeError):  # a closed loop: nobody waits there any more
        batch.loop.call_soon_threadsafe(batch.tell, failure)

"""A journal in memory that satisfies the gateway's Protocol. ``gate`` holds every finish; ``broken`` fails like a dead disk."""

import asyncio
from collections.abc import Callable

from dataproxy.capture.errors import JournalFailed, JournalFull
from dataproxy.capture.records import RequestHalf, ResponseHalf


class FakeJournal:
    """Keeps halves by event id. Like the real one: ``commit`` once for every ``begin``, and never without."""

    def __init__(self) -> None:
        self.begun: dict[str, RequestHalf] = {}
        self.finished: dict[str, ResponseHalf] = {}
        self.waiting: dict[str, ResponseHalf] = {}
        self.gate: asyncio.Event | None = None
        self.broken = False
        self.full = False
        self.closed = False
        self._arrived = asyncio.Event()
        self._tasks: set[asyncio.Future[None]] = set()

    @property
    def failure(self) -> str | None:
        return "broken" if self.broken else None

    def begin(self, half: RequestHalf) -> None:
        if self.broken:
            raise JournalFailed("broken")
        if self.full:
            raise JournalFull("full")
        assert half.event_id not in self.begun
        self.begun[half.event_id] = half

    def commit(self, half: ResponseHalf, done: Callable[[JournalFailed | None], None]) -> None:
        assert half.event_id in self.begun
        assert half.event_id not in self.finished | self.waiting
        self.waiting[half.event_id] = half
        self._arrived.set()
        task = asyncio.ensure_future(self._finish(half, done))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _finish(self, half: ResponseHalf, done: Callable[[JournalFailed | None], None]) -> None:
        if self.gate is not None:
            await self.gate.wait()
        del self.waiting[half.event_id]
        if self.broken:
            done(JournalFailed("broken"))
            return
        self.finished[half.event_id] = half
        done(None)

    async def arrived(self) -> ResponseHalf:
        """The next response half that is handed over, durable or not."""
        await self._arrived.wait()
        self._arrived.clear()
        return [*self.finished.values(), *self.waiting.values()][-1]

    def close(self) -> None:
        self.closed = True

    def only(self) -> tuple[RequestHalf, ResponseHalf]:
        """Both halves of the one exchange there is."""
        (event_id,) = self.finished
        return self.begun[event_id], self.finished[event_id]

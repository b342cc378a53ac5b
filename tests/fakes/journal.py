"""A journal in memory that satisfies the gateway's Protocol. ``gate`` holds every finish; ``broken`` fails like a dead disk."""

import asyncio

from dataproxy.capture.errors import JournalFailed, JournalFull
from dataproxy.capture.records import RequestHalf, ResponseHalf


class FakeJournal:
    """Keeps halves by event id. Like the real one: ``finish`` once for every ``begin``, and never without."""

    def __init__(self) -> None:
        self.begun: dict[str, RequestHalf] = {}
        self.finished: dict[str, ResponseHalf] = {}
        self.waiting: dict[str, ResponseHalf] = {}
        self.gate: asyncio.Event | None = None
        self.broken = False
        self.full = False
        self.closed = False
        self._arrived = asyncio.Event()

    def begin(self, half: RequestHalf) -> None:
        if self.broken:
            raise JournalFailed("broken")
        if self.full:
            raise JournalFull("full")
        assert half.event_id not in self.begun
        self.begun[half.event_id] = half

    async def finish(self, half: ResponseHalf) -> None:
        assert half.event_id in self.begun
        assert half.event_id not in self.finished | self.waiting
        self.waiting[half.event_id] = half
        self._arrived.set()
        if self.gate is not None:
            await self.gate.wait()
        del self.waiting[half.event_id]
        if self.broken:
            raise JournalFailed("broken")
        self.finished[half.event_id] = half

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

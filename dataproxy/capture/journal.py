"""The journal as the gateway sees it: begin an exchange without waiting, finish it durably.

Owns admission (room, queue bounds, health). What it takes goes to the ``sealer``, then to the ``committer``'s thread. One per
process; the event loop that began an exchange finishes it.
"""

import asyncio
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Literal

from dataproxy.capture.committer import Committer, Done
from dataproxy.capture.errors import JournalFailed, JournalFull
from dataproxy.capture.layout import prepare
from dataproxy.capture.records import RequestHalf, ResponseHalf
from dataproxy.capture.sealer import Sealer
from dataproxy.capture.segment import Segment
from dataproxy.capture.space import Space

Durability = Literal["strict", "relaxed"]


class Journal:
    """Sealed history of one process. Use ``Journal.open``; ``close`` flushes."""

    def __init__(self, committer: Committer, sealer: Sealer, space: Space, max_queued_bytes: int) -> None:
        self._committer = committer
        self._sealer = sealer
        self._space = space
        self._max_queued_bytes = max_queued_bytes
        self._queued_bytes = 0
        self._open: dict[str, tuple[str, int]] = {}
        """Tenant, and bytes promised, of each exchange that has begun."""
        self._thread = threading.Thread(target=committer.run, name="journal-committer", daemon=True)
        self._thread.start()

    @classmethod
    def open(
        cls,
        directory: Path,
        public_key: bytes | Callable[[], bytes],
        durability: Durability = "strict",
        *,
        max_segment_bytes: int = 64 << 20,
        max_segment_age_s: float = 600.0,
        max_queued_bytes: int = 64 << 20,
        answer_bytes: int = 1 << 20,
        min_free_bytes: int = 64 << 20,
    ) -> "Journal":
        """Start a new segment under a new data key, sealed to ``public_key`` (32 raw bytes), and the committer thread.

        Where ``public_key`` is asked for, it is asked again for every segment: a rotated one is used from the next on.

        ``durability``: strict waits for fdatasync; relaxed survives a crash of the process but not a loss of power.
        ``answer_bytes`` is reserved for each answer at admission; below ``min_free_bytes`` free nothing is admitted.

        Raises:
            OSError: the directory cannot be written.
        """
        prepare(directory)
        writer = os.urandom(4).hex()

        def new_segment(number: int) -> Segment:
            return Segment(directory, public_key if isinstance(public_key, bytes) else public_key(), writer, number)

        committer = Committer(new_segment, durability == "strict")
        sealer = Sealer(committer, max_segment_bytes, max_segment_age_s)
        return cls(committer, sealer, Space(directory, answer_bytes, min_free_bytes), max_queued_bytes)

    @property
    def failure(self) -> str | None:
        """Why nothing more can be promised; None while all is well."""
        return self._committer.failure

    def begin(self, half: RequestHalf) -> None:
        """Admit an exchange and hand its request half over; returns at once.

        Raises:
            JournalFull: no room can be promised for the answer.
            JournalFailed: the journal is broken or closed.
        """
        self._committer.check()
        if self._queued_bytes - self._committer.written_bytes > self._max_queued_bytes:
            raise JournalFull("the disk is slower than the traffic: too many bytes wait for the journal")
        size_bytes = len(half.body)
        promised_bytes = self._space.reserve(size_bytes, self._queued_bytes, self._committer.written_bytes)
        self._open[half.event_id] = half.tenant, promised_bytes
        self._queued_bytes += size_bytes
        self._sealer.put(half.tenant, half, size_bytes, asyncio.get_running_loop())

    def commit(self, half: ResponseHalf, done: Done) -> None:
        """Hand the response half over; ``done`` is called on this loop once the whole exchange is durable, or may not be.

        Call this or ``finish`` once for every ``begin``.

        Raises:
            JournalFailed: nothing more can be promised; ``done`` is not called.
        """
        tenant, promised_bytes = self._open.pop(half.event_id)
        self._space.release(promised_bytes)
        self._committer.check()
        size_bytes = len(half.body) + len(half.record)
        self._queued_bytes += size_bytes
        self._sealer.put(tenant, half, size_bytes, asyncio.get_running_loop(), done, is_last=not self._open)

    async def finish(self, half: ResponseHalf) -> None:
        """As ``commit``; returns once the whole exchange is durable.

        Raises:
            JournalFailed: it may not be durable.
        """
        durable: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def done(failure: JournalFailed | None) -> None:
            if durable.done():
                return
            if failure is None:
                durable.set_result(None)
            else:
                durable.set_exception(failure)

        self.commit(half, done)
        await durable

    def close(self) -> None:
        """Write and sync what is queued, end the segment and the thread."""
        self._sealer.close()
        self._committer.stop()
        self._thread.join()

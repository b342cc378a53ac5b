"""The loop's side of the commit: gathers halves, seals them into the open segment and hands them to the committer, batch by batch.

A sync, a seal and the changes of thread cost as much for one call as for many, so one batch that somebody waits for is on its way
at a time, and what comes meanwhile goes together. While calls come in company, a batch waits until every open exchange is in it, or
a moment; a lone call waits for nobody. Halves that nobody waits for ride along, or are written a little later, far sooner than a
model answers. Sealing in the thread would be no cheaper, and both would fight for the interpreter.
"""

import asyncio
import threading
import time

from dataproxy.capture.committer import Batch, Closing, Committer, Done, Opening
from dataproxy.capture.records import Half, encode_halves
from dataproxy.capture.segment import Segment

_BEHIND_S = 0.02
"""How long a half that nobody waits for may stay in memory."""
_COMPANY_S = 0.001
"""How long halves that somebody waits for wait for others, where several came together of late."""
_MAX_BYTES = 1 << 20
"""A batch that holds as much goes at once: what is sealed in one piece holds the loop."""


class Sealer:
    """Owns the open segment's cipher and order. A segment that is full, or old and not empty, is rolled."""

    def __init__(self, committer: Committer, max_bytes: int, max_age_s: float) -> None:
        self._committer = committer
        self._max_bytes = max_bytes
        self._max_age_s = max_age_s
        self._segment = committer.first
        self._number = 0
        self._rolling = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._halves: dict[str, list[Half]] = {}
        self._dones: list[Done] = []
        self._size_bytes = 0
        self._soon = self._later = False
        self._company: asyncio.TimerHandle | None = None
        self._num_syncing = 0
        """Batches that somebody waits for, on their way to the disk."""
        self._is_busy = False
        """Whether several waited for the last one."""
        self._lock = threading.Lock()
        """``close`` comes from another thread than the loop's."""

    def put(
        self,
        tenant: str,
        half: Half,
        size_bytes: int,
        loop: asyncio.AbstractEventLoop,
        done: Done | None = None,
        *,
        is_last: bool = False,
    ) -> None:
        """Take a half of ``tenant``, in order. ``done`` waits for it; ``is_last`` says that no other exchange is open."""
        self._loop = loop
        halves = self._halves.get(tenant)
        if halves is None:
            self._halves[tenant] = [half]
        else:
            halves.append(half)
        self._size_bytes += size_bytes
        if done is not None:
            self._dones.append(done)
            if not (self._soon or self._num_syncing):
                self._schedule(loop, now=is_last or not self._is_busy)
        elif not self._later:
            self._later = True
            loop.call_later(_BEHIND_S, self._flush_later)
        if self._size_bytes > _MAX_BYTES:
            self._flush()

    def close(self) -> None:
        """Hand over what is left."""
        self._flush()

    def _schedule(self, loop: asyncio.AbstractEventLoop, *, now: bool) -> None:
        if now:
            self._soon = True
            loop.call_soon(self._flush_soon)
        elif self._company is None:
            self._company = loop.call_later(_COMPANY_S, self._flush_soon)

    def _flush_soon(self) -> None:
        self._soon = False
        self._flush()
        self._roll_if_due()

    def _flush_later(self) -> None:
        self._later = False
        if not self._dones:  # else they go along soon
            self._flush()
        self._roll_if_due()

    def _flush(self) -> None:
        if self._company is not None:
            self._company.cancel()
            self._company = None
        with self._lock:
            loop, segment, dones, size_bytes = self._loop, self._segment, self._dones, self._size_bytes
            if loop is None or not self._halves:
                return
            frames = [segment.frame(tenant, encode_halves(halves)) for tenant, halves in self._halves.items()]
            self._halves, self._dones, self._size_bytes = {}, [], 0
            if dones:
                self._is_busy = len(dones) > 1
                self._num_syncing += 1
            self._committer.put(Batch(segment, frames, dones, size_bytes, loop, self._durable))

    def _durable(self) -> None:
        """Those who waited for a batch have been told. Most come back soon: who has come meanwhile waits for them."""
        self._num_syncing -= 1
        if self._dones and self._loop is not None and not (self._soon or self._num_syncing):
            self._schedule(self._loop, now=False)

    def _roll_if_due(self) -> None:
        segment, loop = self._segment, self._loop
        if self._rolling or not segment.index or loop is None:
            return
        left_s = segment.created + self._max_age_s - time.monotonic()
        if segment.size > self._max_bytes or left_s <= 0:
            self._rolling = True
            self._number += 1
            self._committer.put(Opening(self._number, loop, self._rolled))
        elif not segment.timed:
            segment.timed = True
            loop.call_later(left_s, self._roll_if_due)

    def _rolled(self, segment: Segment) -> None:
        """The new segment is there: what comes from now on goes into it."""
        self._flush()
        with self._lock:
            old, self._segment = self._segment, segment
        self._rolling = False
        self._committer.put(Closing(old))

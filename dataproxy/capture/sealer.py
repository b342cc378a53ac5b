"""The loop's side of the commit: seals halves into the open segment and hands them to the committer once a round of the loop.

Halves that somebody waits for are handed over when the loop has done its round, or a moment later while it is busy; others may wait
for their company, far shorter than a model takes. Sealing in the thread would be no cheaper, and both would fight for the
interpreter.
"""

import asyncio
import threading
import time

import msgspec

from dataproxy.capture.committer import Batch, Closing, Committer, Opening, Waiter
from dataproxy.capture.records import Half, encode_half
from dataproxy.capture.segment import Segment

_BEHIND_S = 0.02
"""How long a half that nobody waits for may stay in memory."""
_COMPANY_S = 0.001
"""How long a busy sealer waits for more: a sync costs as much CPU as sealing many records."""


class Entry(msgspec.Struct, frozen=True):
    """One half on its way to the disk."""

    tenant: str
    half: Half
    size_bytes: int
    waiter: Waiter | None


class Sealer:
    """Owns the open segment's cipher and order. A segment that is full, or old and not empty, is rolled."""

    def __init__(self, committer: Committer, max_bytes: int, max_age_s: float) -> None:
        self._committer = committer
        self._max_bytes = max_bytes
        self._max_age_s = max_age_s
        self._segment = committer.first
        self._number = 0
        self._rolling = self._busy = False
        self._soon = self._later = False
        self._pending: list[Entry] = []
        self._lock = threading.Lock()
        """``close`` comes from another thread than the loop's."""

    def put(self, entry: Entry, loop: asyncio.AbstractEventLoop) -> None:
        """Take a half, in order."""
        self._pending.append(entry)
        if entry.waiter is not None:
            if not self._soon:
                self._soon = True
                if self._busy:
                    loop.call_later(_COMPANY_S, self._flush_soon, loop)
                else:
                    loop.call_soon(self._flush_soon, loop)
        elif not (self._soon or self._later):
            self._later = True
            loop.call_later(_BEHIND_S, self._flush_later, loop)

    def close(self) -> None:
        """Hand over what is left."""
        self._flush()

    def _flush_soon(self, loop: asyncio.AbstractEventLoop) -> None:
        self._soon = False
        self._flush()
        self._roll_if_due(loop)

    def _flush_later(self, loop: asyncio.AbstractEventLoop) -> None:
        self._later = False
        self._flush()
        self._roll_if_due(loop)

    def _flush(self) -> None:
        with self._lock:
            pending, self._pending = self._pending, []
            if not pending:
                return
            segment = self._segment
            frames = [segment.frame(entry.tenant, encode_half(entry.half)) for entry in pending]
            waiters = [entry.waiter for entry in pending if entry.waiter is not None]
            self._busy = len(waiters) > 1
            self._committer.put(Batch(segment, frames, waiters, sum(entry.size_bytes for entry in pending)))

    def _roll_if_due(self, loop: asyncio.AbstractEventLoop) -> None:
        segment = self._segment
        if self._rolling or not segment.index:
            return
        left_s = segment.created + self._max_age_s - time.monotonic()
        if segment.size > self._max_bytes or left_s <= 0:
            self._rolling = True
            self._number += 1
            self._committer.put(Opening(self._number, loop, self._rolled))
        elif not segment.timed:
            segment.timed = True
            loop.call_later(left_s, self._roll_if_due, loop)

    def _rolled(self, segment: Segment) -> None:
        """The new segment is there: what comes from now on goes into it."""
        self._flush()
        with self._lock:
            old, self._segment = self._segment, segment
        self._rolling = False
        self._committer.put(Closing(old))

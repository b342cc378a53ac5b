"""Room for answers: what is promised at admission, so that a journal never fills in the middle of one."""

import os
import time
from pathlib import Path

from dataproxy.capture.errors import JournalFull

_STALE_S = 0.5


class Space:
    """Reservations against the file system's free bytes. Owned by the loop that calls ``reserve``; no lock."""

    def __init__(self, directory: Path, answer_bytes: int, min_free_bytes: int) -> None:
        self._directory = directory
        self._answer_bytes = answer_bytes
        self._min_free_bytes = min_free_bytes
        self._total = 0
        self._free = 0
        self._written = 0
        self._measured = float("-inf")

    def reserve(self, body_bytes: int, handed_bytes: int, written_bytes: int) -> int:
        """Promise room for a request of ``body_bytes`` and its answer; what was promised, to be given to ``release``.

        ``handed_bytes`` were handed to the journal so far, ``written_bytes`` of them are on the file system: what was written since
        it was last asked, and what waits to be, is not free any more.

        Raises:
            JournalFull: there is none.
        """
        wanted = body_bytes + self._answer_bytes
        free = self._free_bytes(written_bytes) - (handed_bytes - self._written)
        if free - self._total - wanted < self._min_free_bytes:
            raise JournalFull(
                f"the journal's disk has {free} bytes free and {self._total} promised; free some, or let the drain go on"
            )
        self._total += wanted
        return wanted

    def release(self, promised_bytes: int) -> None:
        """The exchange is over, stored or not."""
        self._total -= promised_bytes

    def _free_bytes(self, written_bytes: int) -> int:
        now = time.monotonic()
        if now - self._measured > _STALE_S:
            state = os.statvfs(self._directory)
            self._free = state.f_bavail * state.f_frsize
            self._measured, self._written = now, written_bytes
        return self._free

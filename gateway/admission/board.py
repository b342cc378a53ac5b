"""What several gateway processes of one machine count together: a table in a file that all of them map.

Owns the layout, the rows of the processes and the lock. What is counted is the business of ``meter`` and ``gate``. A process writes
its own row only; what all of them change (rates, budgets) they change under ``locked``. The row of a process that died is found by
its free lock and emptied by whoever looks next.
"""

import fcntl
import mmap
import os
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import blake2b
from pathlib import Path

MAX_ROWS = 32
NUM_SLOTS = 8192
UNITS = 8
"""Units of 8 bytes before a slot's rows: the digest of its name (2), pending and confirmed tokens, two rates of (level, at)."""
PENDING, CONFIRMED, REQUESTS, TOKENS = 2, 3, 4, 6

_HEADER_UNITS = 8
_MASK = 1
"""Where the header has one bit for each row in use."""
_STRIDE = UNITS + 2 * MAX_ROWS
_BYTES = 8 * (_HEADER_UNITS + NUM_SLOTS * _STRIDE)
_MAGIC = int.from_bytes(b"HRBOARD1", "little")
_Lasting = list[tuple[int, int, int, int]]


class BoardFull(Exception):
    """Every slot is taken: more keys with limits than the table holds."""


class Board:
    """The table in ``directory``; ``row`` is this process's. Times on it are wall-clock seconds.

    Example:
        >>> slot = board.slot("key:k1")
        >>> with board.locked():
        ...     board.ints[slot + PENDING] += 12
    """

    def __init__(self, directory: Path) -> None:
        """Join the table, making it if need be. A process that comes alone drops the slots that hold nothing lasting.

        Raises:
            OSError: the directory cannot be written, or MAX_ROWS processes share it already.
        """
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._directory = directory
        self._slots: dict[str, int] = {}
        self._file = os.open(directory / "board", os.O_RDWR | os.O_CREAT, 0o600)
        fcntl.flock(self._file, fcntl.LOCK_EX)
        try:
            self.row, self._row_lock = self._claim_row()
            lasting = self._forget() if self._comes_alone() else []
            os.ftruncate(self._file, _BYTES)
            self._map = mmap.mmap(self._file, _BYTES)
            view = memoryview(self._map)
            self.ints, self.floats = view.cast("q"), view.cast("d")
            self.ints[0] = _MAGIC
            self.ints[_MASK] |= 1 << self.row
            self._empty_row(self.row)
            for low, high, pending, confirmed in lasting:
                slot = self._find(low, high)
                self.ints[slot + PENDING], self.ints[slot + CONFIRMED] = pending, confirmed
        finally:
            fcntl.flock(self._file, fcntl.LOCK_UN)

    @property
    def alone(self) -> bool:
        """Whether no other process is on the table."""
        return self.ints[_MASK] == 1 << self.row

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep the other processes from changing rates and budgets meanwhile. No system call where there are none."""
        if self.alone:
            yield
            return
        fcntl.flock(self._file, fcntl.LOCK_EX)
        try:
            yield
        finally:
            fcntl.flock(self._file, fcntl.LOCK_UN)

    def slot(self, name: str) -> int:
        """Where the slot of ``name`` begins, in units of ``ints`` and ``floats``.

        Raises:
            BoardFull: it has none, and there is no room for one.
        """
        found = self._slots.get(name)
        if found is None:
            digest = blake2b(name.encode(), digest_size=16).digest()
            low, high = int.from_bytes(digest[:8], "little") >> 1 | 1, int.from_bytes(digest[8:], "little") >> 1
            with self.locked():
                found = self._slots[name] = self._find(low, high)
        return found

    def cell(self, slot: int, kind: int = 0) -> int:
        """The index in ``ints`` of what this process runs (``kind`` 0) or keeps waiting (1) under ``slot``."""
        return slot + UNITS + kind * MAX_ROWS + self.row

    def total(self, slot: int, kind: int = 0) -> int:
        """The sum of those cells over all processes."""
        start = slot + UNITS + kind * MAX_ROWS
        return sum(self.ints[start : start + self.ints[_MASK].bit_length()])

    def num_with(self, slot: int, kind: int) -> int:
        """How many processes have something in those cells."""
        start = slot + UNITS + kind * MAX_ROWS
        return sum(1 for count in self.ints[start : start + self.ints[_MASK].bit_length()] if count)

    def sweep(self) -> None:
        """Empty the rows of processes that died. Call it about once a second."""
        for row in range(self.ints[_MASK].bit_length()):
            if row == self.row or not self.ints[_MASK] >> row & 1:
                continue
            lock = self._try_row(row)
            if lock is not None:
                with self.locked():
                    self._empty_row(row)
                    self.ints[_MASK] &= ~(1 << row)
                os.close(lock)

    def close(self) -> None:
        """Leave; what this process ran no longer counts."""
        with self.locked():
            self._empty_row(self.row)
            self.ints[_MASK] &= ~(1 << self.row)
        self.ints.release()
        self.floats.release()
        os.close(self._row_lock)
        os.close(self._file)

    def _claim_row(self) -> tuple[int, int]:
        for row in range(MAX_ROWS):
            if (lock := self._try_row(row)) is not None:
                return row, lock
        raise OSError(f"{MAX_ROWS} gateway processes share {self._directory} already")

    def _try_row(self, row: int) -> int | None:
        """The descriptor that holds ``row``'s lock, or None: a living process has it."""
        lock = os.open(self._directory / f"row-{row}.lock", os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(lock)
            return None
        return lock

    def _comes_alone(self) -> bool:
        locks = [self._try_row(row) for row in range(MAX_ROWS) if row != self.row]
        for lock in locks:
            if lock is not None:
                os.close(lock)
        return None not in locks

    def _forget(self) -> _Lasting:
        """Empty the file; (digest, digest, pending, confirmed) of the slots whose tokens the data proxy has not confirmed."""
        lasting: _Lasting = []
        if os.fstat(self._file).st_size == _BYTES:
            with mmap.mmap(self._file, _BYTES) as old, memoryview(old) as view, view.cast("q") as ints:
                starts = range(_HEADER_UNITS, len(ints), _STRIDE) if ints[0] == _MAGIC else ()
                kept = [at for at in starts if ints[at + PENDING]]
                lasting = [(ints[at], ints[at + 1], ints[at + PENDING], ints[at + CONFIRMED]) for at in kept]
        os.ftruncate(self._file, 0)
        return lasting

    def _find(self, low: int, high: int) -> int:
        for probe in range(NUM_SLOTS):
            slot = _HEADER_UNITS + (low + probe) % NUM_SLOTS * _STRIDE
            if self.ints[slot] == low and self.ints[slot + 1] == high:
                return slot
            if not self.ints[slot]:
                self.ints[slot], self.ints[slot + 1] = low, high
                return slot
        raise BoardFull(f"{NUM_SLOTS} keys, tenants and models with limits are in use already")

    def _empty_row(self, row: int) -> None:
        for slot in range(_HEADER_UNITS, len(self.ints), _STRIDE):
            if self.ints[slot]:
                self.ints[slot + UNITS + row] = self.ints[slot + UNITS + MAX_ROWS + row] = 0

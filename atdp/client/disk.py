"""The buffer on disk: events as lines in numbered files, and a cursor for what has its receipt.

What ``put`` has returned for survives a killed process; a line torn by the kill is cut off when the buffer is opened again. What
was sent but not yet dropped is sent twice, and the gateway knows it by its id. Files hold events in the clear, mode 0600: it is the
agent's own machine and data. Not synced to the disk on each event: a power loss may take the last seconds.
"""

import fcntl
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from atdp.client.errors import BufferFull, BufferInUse

_SEGMENT_BYTES: Final = 4 << 20
_CURSOR: Final = "cursor"


class DiskQueue:
    """A ``Queue`` in ``directory``, which it makes, of at most ``max_bytes``. One process at a time."""

    def __init__(self, directory: Path, max_bytes: int) -> None:
        """Open or make it.

        Raises:
            BufferInUse: another process has it open.
        """
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._directory = directory
        self._max_bytes = max_bytes
        self._lock = _lock(directory / "lock")
        self._segment, self._offset = self._read_cursor()
        for path in self._paths():
            if int(path.stem) < self._segment:
                path.unlink()
        names = [int(path.stem) for path in self._paths()]
        if names:
            _cut_torn(self._path(names[-1]))
        self._last = max([*names, self._segment])
        self._size = sum(path.stat().st_size for path in self._paths()) - self._offset
        self._count = sum(1 for _ in self._lines())
        self._write_at = self._open(self._last)

    def put(self, event: bytes) -> None:
        line = event + b"\n"
        if self._size + len(line) > self._max_bytes:
            raise BufferFull(f"{self._count} events wait in {self._directory}, as many as may; this one is not taken")
        if os.fstat(self._write_at).st_size >= _SEGMENT_BYTES:
            os.close(self._write_at)
            self._last += 1
            self._write_at = self._open(self._last)
        self._append(line)
        self._size += len(line)
        self._count += 1

    def _append(self, line: bytes) -> None:
        end = os.fstat(self._write_at).st_size
        try:
            whole = os.write(self._write_at, line) == len(line)
        except OSError as error:
            os.truncate(self._path(self._last), end)
            raise BufferFull(f"{self._directory} cannot be written ({error.strerror}); this event is not taken") from error
        if not whole:
            os.truncate(self._path(self._last), end)
            raise BufferFull(f"no room for {self._directory}; this event is not taken")

    def peek(self, max_events: int, max_bytes: int) -> list[bytes]:
        found: list[bytes] = []
        size = 0
        for line in self._lines():
            size += len(line)
            if len(found) == max_events or (found and size > max_bytes):
                break
            found.append(line[:-1])
        return found

    def drop(self, num_events: int) -> None:
        left = num_events
        while left:
            with self._path(self._segment).open("rb") as segment:
                segment.seek(self._offset)
                for line in segment:
                    self._offset += len(line)
                    self._size -= len(line)
                    left -= 1
                    if not left:
                        break
            if self._segment < self._last and self._offset == self._path(self._segment).stat().st_size:
                self._segment, self._offset = self._segment + 1, 0
        self._count -= num_events
        self._write_cursor()
        for path in self._paths():
            if int(path.stem) < self._segment:
                path.unlink()

    def __len__(self) -> int:
        return self._count

    def close(self) -> None:
        os.close(self._write_at)
        os.close(self._lock)

    def _lines(self) -> Iterator[bytes]:
        offset = self._offset
        for path in self._paths():
            with path.open("rb") as segment:
                segment.seek(offset)
                yield from segment
            offset = 0

    def _paths(self) -> list[Path]:
        return sorted(path for path in self._directory.glob("*.jsonl") if path.stem.isdigit())

    def _path(self, number: int) -> Path:
        return self._directory / f"{number:08d}.jsonl"

    def _open(self, number: int) -> int:
        return os.open(self._path(number), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

    def _read_cursor(self) -> tuple[int, int]:
        try:
            segment, offset = (self._directory / _CURSOR).read_text().split()
        except FileNotFoundError:
            return 0, 0
        return int(segment), int(offset)

    def _write_cursor(self) -> None:
        new = self._directory / f"{_CURSOR}.new"
        new.write_text(f"{self._segment} {self._offset}")
        new.replace(self._directory / _CURSOR)


def _lock(path: Path) -> int:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        os.close(descriptor)
        raise BufferInUse(f"another process has the buffer {path.parent} open; give each process a directory of its own") from error
    return descriptor


def _cut_torn(path: Path) -> None:
    """Cut what stands behind the last whole line."""
    data = path.read_bytes()
    whole = data.rfind(b"\n") + 1
    if whole < len(data):
        os.truncate(path, whole)

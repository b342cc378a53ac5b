"""Names and locks of the journal's files: ``<segment>.seg``, ``keys/<segment>.key``, and who still writes them.

A segment's name is ``<µs, hex>-<writer>-<number>``: it sorts by age and says which writer (one per process start) made it. A
writer holds an exclusive ``flock`` on its open segment, so the kernel tells a reader when that writer died or rolled on.
"""

import fcntl
import os
from dataclasses import dataclass
from pathlib import Path

MAGIC = b"HRSEG02\n"
_TEMPORARY = ".tmp"


@dataclass(slots=True, frozen=True)
class SegmentFiles:
    """The paths that belong to segment ``name`` in journal ``directory``."""

    directory: Path
    name: str

    @property
    def segment(self) -> Path:
        return self.directory / f"{self.name}.seg"

    @property
    def temporary(self) -> Path:
        return self.directory / f"{self.name}.seg{_TEMPORARY}"

    @property
    def key(self) -> Path:
        return self.directory / "keys" / f"{self.name}.key"

    @property
    def writer(self) -> str:
        """The writer that made the segment: one per process start."""
        return self.name.split("-")[1]


def prepare(directory: Path) -> None:
    """Make the journal's directories, readable by their owner only."""
    for path in (directory, directory / "keys"):
        path.mkdir(parents=True, exist_ok=True, mode=0o700)
    fsync_directory(directory)


def list_segments(directory: Path) -> list[SegmentFiles]:
    """All segments, oldest first."""
    return [SegmentFiles(directory, path.stem) for path in sorted(directory.glob("*.seg"))]


def is_locked(path: Path) -> bool:
    """Whether a living writer holds ``path``; a missing file is not held."""
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    else:
        return False
    finally:
        os.close(descriptor)


def fsync_directory(path: Path) -> None:
    """Make the directory's entries durable: a new file's name is not, until this returns."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def shred(path: Path) -> None:
    """Overwrite a key file in place, make that durable, then remove it. A missing file is already shredded."""
    try:
        descriptor = os.open(path, os.O_WRONLY)
    except FileNotFoundError:
        return
    try:
        os.write(descriptor, bytes(os.fstat(descriptor).st_size))
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    path.unlink()
    fsync_directory(path.parent)

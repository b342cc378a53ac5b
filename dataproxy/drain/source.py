"""Where exchanges come from: every segment of the journal, read on, halves paired by event id.

Owns what has been read and not yet committed: after a commit, ``offsets`` are what to start from next time, and ``retire`` ends the
segments that are done with. A request whose writer is gone comes out without its answer. One thread.
"""

import logging
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from dataproxy.capture.errors import KeyUnusable, SegmentDamaged
from dataproxy.capture.layout import MAGIC, SegmentFiles, fsync_directory, is_locked, list_segments, shred
from dataproxy.capture.reader import Located, SegmentReader
from dataproxy.capture.records import RequestHalf, ResponseHalf
from dataproxy.drain.exchange import RawExchange

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class _Progress:
    """How far one segment is read, and how far of that is ``settled``: committed or waiting in memory for its other half.

    ``open_starts`` maps a request without its answer to where its frame begins.
    """

    reader: SegmentReader
    position: int
    settled: int
    open_starts: dict[str, int] = field(default_factory=dict)
    ended: bool = False
    damaged: bool = False

    @property
    def watermark(self) -> int:
        """From here on it must be read again after a restart."""
        return min(self.open_starts.values(), default=self.position)


class JournalSource:
    """Exchanges of the journal in ``directory``, from the committed ``offsets`` on."""

    def __init__(self, directory: Path, private_keys: Callable[[], list[bytes]], offsets: Mapping[str, int]) -> None:
        self._directory = directory
        self._private_keys = private_keys
        self._start = dict(offsets)
        self._progress: dict[str, _Progress] = {}
        self._open: dict[str, tuple[RequestHalf, str]] = {}
        self._unreadable: set[str] = set()
        self._orphans: list[tuple[str, ResponseHalf]] = []

    def poll(self, limit: int) -> list[RawExchange]:
        """Up to about ``limit`` exchanges that became whole, or whose writer died. Commit them before the next poll."""
        found: list[RawExchange] = []
        for files in list_segments(self._directory):
            if len(found) >= limit:
                return found
            if (progress := self._of(files)) is not None and not progress.ended:
                self._read(progress, found, limit)
        found.extend(self._abandoned())
        return found

    def take_orphans(self) -> list[tuple[str, ResponseHalf]]:
        """(tenant, answer) of answers read without their request: committed before a restart, or their request is damaged."""
        orphans, self._orphans = self._orphans, []
        return orphans

    def offsets(self) -> dict[str, int]:
        """What to start from after a restart, for each segment; store it with what ``poll`` gave."""
        return {name: progress.watermark for name, progress in self._progress.items()}

    def settle(self) -> None:
        """What was read so far is committed."""
        for progress in self._progress.values():
            progress.settled = progress.position

    def backlog_bytes(self) -> int:
        """Bytes of the journal not drained yet; 0 means that every whole exchange in it is committed. Any thread."""
        total = 0
        for files in list_segments(self._directory):
            progress = self._progress.get(files.name)
            total += max(_size(files.segment) - max(progress.settled if progress else 0, len(MAGIC)), 0)
        return total

    def retire(self) -> list[str]:
        """End the segments that are wholly committed: key destroyed, then file removed. Gives their names."""
        done = [name for name, p in self._progress.items() if p.ended and not p.open_starts]
        for name in done:
            progress = self._progress.pop(name)
            files = progress.reader.files
            if progress.damaged:
                self._set_aside(files)
                continue
            shred(files.key)
            files.segment.unlink()
            fsync_directory(self._directory)
        return done

    def sweep(self) -> None:
        """Remove what a writer or an earlier drain left half-way: keys without a segment, segments whose key is destroyed."""
        for key in sorted((self._directory / "keys").glob("*.key")):
            files = SegmentFiles(self._directory, key.stem)
            if not is_locked(files.temporary) and not files.segment.exists():
                shred(key)
                files.temporary.unlink(missing_ok=True)

    def _of(self, files: SegmentFiles) -> _Progress | None:
        if files.name in self._unreadable:
            return None
        if files.name not in self._progress:
            try:
                reader = self._reader(files)
            except KeyUnusable as error:
                self._keyless(files, error)
                return None
            self._progress[files.name] = _Progress(reader, start := self._start.pop(files.name, 0), start)
        return self._progress[files.name]

    def _reader(self, files: SegmentFiles) -> SegmentReader:
        error = KeyUnusable("there is no private key")
        for private_key in self._private_keys():
            try:
                return SegmentReader(files, private_key)
            except KeyUnusable as unusable:
                error = unusable
        raise error

    def _keyless(self, files: SegmentFiles, error: KeyUnusable) -> None:
        """A committed segment whose key a dying drain had already destroyed goes; any other is kept and reported."""
        if self._start.get(files.name, -1) >= _size(files.segment):
            shred(files.key)
            files.segment.unlink(missing_ok=True)
            return
        self._unreadable.add(files.name)
        logger.error("segment %s cannot be opened and is left where it is: %s", files.name, error)

    def _read(self, progress: _Progress, found: list[RawExchange], limit: int) -> None:
        written = is_locked(progress.reader.files.segment)  # asked first: what follows then reads all there ever was
        try:
            for located in progress.reader.read(progress.position):
                progress.position = located.end
                found.extend(self._take(progress, located))
                if len(found) >= limit and located.end > located.start:  # not between two halves of one frame
                    return
        except SegmentDamaged as error:
            if written:
                return
            progress.damaged = True
            logger.error("a damaged segment is set aside after what could be read: %s", error)
        if not written and progress.reader.tears_inside(progress.position):
            progress.damaged = True
            logger.error("segment %s is damaged at byte %s and set aside", progress.reader.files.name, progress.position)
        progress.ended = not written

    def _take(self, progress: _Progress, located: Located) -> Iterator[RawExchange]:
        half = located.half
        if isinstance(half, RequestHalf):
            self._open[half.event_id] = half, progress.reader.files.name
            progress.open_starts[half.event_id] = located.start
        elif half.event_id in self._open:
            request, segment = self._open.pop(half.event_id)
            del self._progress[segment].open_starts[half.event_id]
            yield RawExchange(request, half)
        else:
            self._orphans.append((located.tenant, half))

    def _abandoned(self) -> list[RawExchange]:
        """The open requests of writers that have ended every segment and, looked at after that, have no other."""
        writers: dict[str, bool] = defaultdict(lambda: True)
        for progress in self._progress.values():
            writers[progress.reader.files.writer] &= progress.ended
        for files in list_segments(self._directory):
            if files.name not in self._progress and files.name not in self._unreadable:
                writers[files.writer] = False
        gone = []
        for event_id, (request, segment) in list(self._open.items()):
            progress = self._progress[segment]
            if writers[progress.reader.files.writer]:
                del self._open[event_id], progress.open_starts[event_id]
                gone.append(RawExchange(request, None))
        return gone

    def _set_aside(self, files: SegmentFiles) -> None:
        aside = self._directory / "damaged"
        aside.mkdir(exist_ok=True, mode=0o700)
        files.key.rename(aside / files.key.name)
        files.segment.rename(aside / files.segment.name)
        fsync_directory(self._directory)


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0

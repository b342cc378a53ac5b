"""The file of registered workers, ``<data directory>/gateway/workers.json``: any gateway process writes it, all follow it.

It outlives restarts. A write replaces the file as a whole under a lock; readers notice by its inode, size and time.
"""

import fcntl
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from hashlib import blake2b
from pathlib import Path
from typing import Literal, TypeVar

import msgspec

from router.workers import Lane

T = TypeVar("T")


class Entry(msgspec.Struct, frozen=True, omit_defaults=True):
    """A registered worker: calls go to ``address``, which was checked. ``expires_at`` (UTC s): gone by then unless renewed."""

    url: str
    host: str
    address: str
    port: int
    lane: Lane = "stable"
    kind: Literal["sglang", "external"] = "sglang"
    expires_at: float | None = None


class Out(msgspec.Struct, frozen=True, omit_defaults=True):
    """Why a worker is out of rotation. With ``until_restart`` for as long as it is the ``instance`` that it was."""

    reason: str
    since_us: int
    until_restart: bool = False
    instance: str = ""


class Registered(msgspec.Struct, frozen=True, omit_defaults=True):
    """All that the file holds. ``draining``, ``out``, ``lanes`` and ``proven`` name workers by id, those of the settings too.

    ``lanes``: workers that were moved; ``versions``: the weights that each lane serves, any where a lane has no entry. Once one
    has, a worker serves only as the ``instance`` that was ``proven``: whose weights somebody compared with the record.
    """

    workers: tuple[Entry, ...] = ()
    draining: frozenset[str] = frozenset()
    canary_per_mille: int | None = None
    out: dict[str, Out] = {}
    lanes: dict[str, Lane] = {}
    versions: dict[Lane, list[str]] = {}
    proven: dict[str, str] = {}

    def living(self, now: float) -> "Registered":
        """Without what has expired."""
        kept = tuple(entry for entry in self.workers if entry.expires_at is None or entry.expires_at > now)
        return msgspec.structs.replace(self, workers=kept)

    def find(self, worker_id: str) -> Entry | None:
        """The entry of that id."""
        return next((entry for entry in self.workers if id_of(entry.url) == worker_id), None)


_decode = msgspec.json.Decoder(Registered).decode


def id_of(url: str) -> str:
    """A worker's id: the same for the same URL, everywhere."""
    return blake2b(url.encode(), digest_size=6).hexdigest()


class Register:
    """The file in ``directory``. ``clock`` gives UTC seconds."""

    def __init__(self, directory: Path, clock: Callable[[], float] = time.time) -> None:
        self._path = directory / "workers.json"
        self._lock_path = directory / "workers.lock"
        self._clock = clock

    def stamp(self) -> tuple[int, int, int] | None:
        """Changes whenever the file does; None while there is none."""
        try:
            state = self._path.stat()
        except FileNotFoundError:
            return None
        return state.st_ino, state.st_size, state.st_mtime_ns

    def read(self) -> Registered:
        """What holds now.

        Raises:
            msgspec.DecodeError: somebody else wrote the file.
        """
        try:
            text = self._path.read_bytes()
        except FileNotFoundError:
            return Registered()
        return _decode(text).living(self._clock())

    @contextmanager
    def changing(self) -> Iterator["Change"]:
        """Change the file: what the block leaves in ``now`` is written, whole or not at all. Blocks. Raises OSError."""
        self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        lock = os.open(self._lock_path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            change = Change(self.read())
            yield change
            temporary = self._path.with_suffix(".tmp")
            temporary.write_bytes(msgspec.json.format(msgspec.json.encode(change.now), indent=2))
            temporary.chmod(0o600)
            temporary.rename(self._path)
        finally:
            os.close(lock)


class Change:
    """What is about to be written."""

    def __init__(self, now: Registered) -> None:
        self.now = now

    def put(self, entry: Entry) -> bool:
        """Add or renew a worker; whether it is new."""
        others = tuple(other for other in self.now.workers if other.url != entry.url)
        is_new = len(others) == len(self.now.workers)
        self.now = msgspec.structs.replace(self.now, workers=(*others, entry))
        return is_new

    def remove(self, worker_id: str) -> bool:
        """Take a worker out; whether it was there."""
        kept = tuple(entry for entry in self.now.workers if id_of(entry.url) != worker_id)
        was_there = len(kept) < len(self.now.workers)
        named = {name: _without(getattr(self.now, name), worker_id) for name in ("out", "lanes", "proven")}
        self.now = msgspec.structs.replace(self.now, workers=kept, draining=self.now.draining - {worker_id}, **named)
        return was_there

    def drain(self, worker_id: str, on: bool) -> None:
        """Begin or end a worker's drain."""
        draining = self.now.draining | {worker_id} if on else self.now.draining - {worker_id}
        self.now = msgspec.structs.replace(self.now, draining=draining)

    def share(self, canary_per_mille: int) -> None:
        """Set the canary lane's share."""
        self.now = msgspec.structs.replace(self.now, canary_per_mille=canary_per_mille)

    def serve(self, lane: Lane, versions: list[str]) -> None:
        """Say which versions a lane serves; none: any."""
        others = {name: served for name, served in self.now.versions.items() if name != lane}
        self.now = msgspec.structs.replace(self.now, versions=others | ({lane: versions} if versions else {}))

    def move(self, worker_id: str, lane: Lane) -> None:
        """Put a worker into a lane."""
        self.now = msgspec.structs.replace(self.now, lanes=self.now.lanes | {worker_id: lane})

    def prove(self, worker_id: str, instance: str) -> None:
        """Somebody compared the weights of this start of a worker with the record, and they are what it says."""
        self.now = msgspec.structs.replace(self.now, proven=self.now.proven | {worker_id: instance})

    def put_out(self, worker_id: str, out: Out | None) -> None:
        """Take a worker out of rotation, or back in."""
        others = _without(self.now.out, worker_id)
        self.now = msgspec.structs.replace(self.now, out=others | ({worker_id: out} if out else {}))


def _without(entries: dict[str, T], worker_id: str) -> dict[str, T]:
    return {name: entry for name, entry in entries.items() if name != worker_id}

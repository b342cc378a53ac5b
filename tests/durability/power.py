"""What a loss of power leaves of a data directory: a copy of a frozen machine, less what no sync had promised.

Of a journal segment everything behind the last sync may be gone, zeros, or anything else; so may SQLite's log behind its last
commit (every commit is synced). Its index of that log is never synced and is gone.
"""

import os
import random
import shutil
import signal
import sqlite3
import struct
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from dataproxy.capture.layout import MAGIC
from tests.durability.machine import Machine

_WAL_HEAD = struct.Struct(">IIIIIIII")
_WAL_FRAME = struct.Struct(">IIIIII")

_MOST_TRIES = 500

Loss = Callable[[Path, int, random.Random], None]
"""Takes from a file what stands behind its first so many bytes."""


def truncated(path: Path, durable: int, rng: random.Random) -> None:
    """The tail never came, or a part of it did."""
    os.truncate(path, rng.randint(durable, path.stat().st_size))


def zeroed(path: Path, durable: int, rng: random.Random) -> None:
    """The length came, the bytes did not."""
    start = rng.randint(durable, size := path.stat().st_size)
    os.truncate(path, start)
    os.truncate(path, size)


def garbled(path: Path, durable: int, rng: random.Random) -> None:
    """Other bytes came in the place of some."""
    size = path.stat().st_size
    with path.open("r+b") as file:
        for _ in range(rng.randint(1, 4)):
            start = rng.randint(durable, size)
            file.seek(start)
            file.write(rng.randbytes(rng.randint(0, size - start)))


LOSSES: dict[str, Loss] = {"truncated": truncated, "zeroed": zeroed, "garbled": garbled}


@contextmanager
def frozen(here: Machine) -> Iterator[None]:
    """No process of the machine runs: the directory is as it was at one moment, and something in its journal was at risk then."""
    _stop(here, "gateway")
    for _ in range(_MOST_TRIES):
        if any(path.stat().st_size > _promised(here, path.stem) for path in (here.paths.data_dir / "journal").glob("*.seg")):
            break
        _go_on(here, "gateway")
        _stop(here, "gateway")
    _stop(here, "dataproxy")
    try:
        yield
    finally:
        _go_on(here, "gateway")
        _go_on(here, "dataproxy")


def _stop(here: Machine, name: str) -> None:
    os.kill(here.pid(name), signal.SIGSTOP)
    here.until(lambda: _is_stopped(here.pid(name)), f"the stop of {name}")


def _go_on(here: Machine, name: str) -> None:
    os.kill(here.pid(name), signal.SIGCONT)


def _promised(here: Machine, segment: str) -> int:
    noted = here.run_dir / "synced" / segment
    return int(noted.read_text()) if noted.exists() else len(MAGIC)  # it has just been made


def _is_stopped(pid: int) -> bool:
    """Whether every thread of the process has stopped."""
    states = [(task / "stat").read_text().rpartition(")")[2].split()[0] for task in Path(f"/proc/{pid}/task").iterdir()]
    return set(states) == {"T"}


def copy_after_loss(here: Machine, to: Path, loss: Loss, rng: random.Random) -> int:
    """Copy a frozen machine's data to ``to`` as ``loss`` leaves it; gives how many bytes of the journal nobody had promised."""
    shutil.copytree(here.paths.data_dir, to, ignore=shutil.ignore_patterns("*.sock", "*.lock", "*-shm"))
    unpromised = 0
    for segment in (to / "journal").glob("*.seg"):
        unpromised += _lose(segment, _promised(here, segment.stem), loss, rng)
    for wal in (to / "store").glob("*-wal"):
        _lose(wal, end_of_commits(wal), loss, rng)
    return unpromised


def _lose(path: Path, durable: int, loss: Loss, rng: random.Random) -> int:
    behind = path.stat().st_size - durable
    if behind > 0:
        loss(path, durable, rng)
    return max(behind, 0)


def end_of_commits(wal: Path) -> int:
    """Where the last transaction that is committed in SQLite's write-ahead log ends (file format, section 4)."""
    data = wal.read_bytes()
    if len(data) < _WAL_HEAD.size:
        return 0
    _, _, page, _, *salts = _WAL_HEAD.unpack_from(data)[:6]
    end = at = _WAL_HEAD.size
    while at + _WAL_FRAME.size + page <= len(data):
        _, size_after, *theirs = _WAL_FRAME.unpack_from(data, at)[:4]
        if theirs != salts:
            break
        at += _WAL_FRAME.size + page
        end = at if size_after else end
    return end


def check_database(store: Path) -> None:
    """SQLite finds its file whole."""
    with closing(sqlite3.connect(store / "headrace.db")) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]

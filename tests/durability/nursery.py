"""Gateway, data proxy and a fake engine, forked from a process that has imported everything, and born again whenever they die.

So a round of kills takes a second. ``python -m tests.durability.nursery DIRECTORY ENGINE_PORT``: every child is the product's own
``main`` in a fresh process. A child's process id lies in ``DIRECTORY/<name>.pid``, what it said in ``<name>.log``. SIGTERM ends all
of them, the gateway first, so that the data proxy drains what it wrote. The gateway's journal notes in ``synced/<segment>`` how
many bytes of a segment are on the disk for certain: what a loss of power could not take.
"""

import asyncio
import ctypes
import os
import signal
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from types import FrameType

import dataproxy.__main__
import gateway.__main__
from dataproxy.capture.segment import Segment
from tests.fakes.engine import FakeEngine
from tests.fakes.serving import serve

NAMES = ("engine", "dataproxy", "gateway")


async def _engine(directory: Path, port: int) -> None:
    ended = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, ended.set)
    engine = FakeEngine()
    engine.calls = _Forgetful()
    async with serve(engine.app(), port=port, lifespan="off"):
        await ended.wait()


class _Forgetful(list[object]):
    """A fake engine keeps every call for the test to look at; here nobody does, and its memory must not grow."""

    def append(self, _: object) -> None:
        """Keep nothing."""


def _note_syncs(directory: Path) -> None:
    """Let the journal say what is on the disk for certain."""
    notes = directory / "synced"
    notes.mkdir(exist_ok=True)
    write, sync, make = Segment.write, Segment.sync, Segment.__init__

    def note(segment: Segment) -> None:
        size = os.fstat(segment._descriptor).st_size
        temporary = notes / f".{segment.files.name}"
        temporary.write_text(str(size))
        temporary.rename(notes / segment.files.name)

    def made(segment: Segment, *arguments: object) -> None:
        make(segment, *arguments)  # type: ignore[arg-type]
        note(segment)

    def written(segment: Segment, frames: list[bytes], *, durably: bool = False) -> None:
        write(segment, frames, durably=durably)
        if durably:
            note(segment)

    def synced(segment: Segment) -> None:
        sync(segment)
        note(segment)

    Segment.__init__, Segment.write, Segment.sync = made, written, synced  # type: ignore[method-assign, assignment]


def _die_with_parent(number: int) -> None:
    """Linux only, as everything here: no test leaves a process behind, however it ends."""
    ctypes.CDLL(None, use_errno=True).prctl(1, number)


class Nursery:
    """The children of this process."""

    def __init__(self, directory: Path, port: int) -> None:
        self._directory = directory
        self._mains: dict[str, Callable[[], int | None]] = {
            "engine": lambda: asyncio.run(_engine(directory, port)),
            "dataproxy": dataproxy.__main__.main,
            "gateway": gateway.__main__.main,
        }
        self._pids: dict[str, int] = {}
        self._ending = False

    def run(self) -> None:
        """Until SIGTERM."""
        signal.signal(signal.SIGTERM, self._end)
        for name in NAMES:
            self._bear(name)
        while self._pids:
            pid, _ = os.wait()
            for name in [name for name, its in self._pids.items() if its == pid]:
                del self._pids[name]
                if not self._ending:
                    self._bear(name)
            if self._ending:
                self._end_next()

    def _end(self, number: int, frame: FrameType | None) -> None:
        self._ending = True
        self._end_next()

    def _end_next(self) -> None:
        """One after the other, so that the data proxy drains what the gateway wrote last."""
        for name in reversed(NAMES):
            if name in self._pids:
                os.kill(self._pids[name], signal.SIGTERM)
                return

    def _bear(self, name: str) -> None:
        pid = os.fork()
        if pid == 0:
            self._live(name)
        self._pids[name] = pid
        temporary = self._directory / f".{name}.pid"
        temporary.write_text(str(pid))
        temporary.rename(self._directory / f"{name}.pid")

    def _live(self, name: str) -> None:
        """The child: never returns."""
        status = 1
        try:
            _die_with_parent(signal.SIGKILL)
            for number in (signal.SIGTERM, signal.SIGINT):
                signal.signal(number, signal.SIG_DFL)
            log = os.open(self._directory / f"{name}.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
            os.dup2(log, 2)
            os.dup2(log, 1)
            os.close(log)
            status = self._mains[name]() or 0
        except BaseException:  # noqa: BLE001  whatever it was, it is this child's last word
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(status)


if __name__ == "__main__":
    _die_with_parent(signal.SIGTERM)
    _note_syncs(Path(sys.argv[1]))
    nursery = Nursery(Path(sys.argv[1]), int(sys.argv[2]))
    sys.argv = sys.argv[:1]  # the gateway reads it
    nursery.run()

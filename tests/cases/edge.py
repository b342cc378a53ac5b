"""A gateway in a process of its own, between an engine of the tests and raw sockets: what an agent meets, nothing of the inside.

Its data proxy is the fake one, its journal the real one on disk: `halves` opens it with the private key.
"""

import asyncio
import json
import os
import shutil
import socket
import sys
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from dataproxy.capture.layout import list_segments
from dataproxy.capture.reader import SegmentReader
from dataproxy.capture.records import RequestHalf, ResponseHalf
from dataproxy.keyfiles import KeyFiles, ensure
from tests.cases.wire import Wire
from tests.fakes.dataproxy import FakeDataProxy, key_row

PATIENCE_S = 300.0
"""Longer than anything takes on a busy machine; no test waits for it to pass."""
KEYS = [
    key_row("hr_acme"),
    key_row("hr_other", tenant="other"),
    key_row("hr_quiet", tenant="quiet", record=False),
    key_row("hr_revoked", revoked=True),
]


@dataclass
class Edge:
    """One running gateway process."""

    port: int
    run_dir: Path
    process: psutil.Process
    dataproxy: FakeDataProxy
    _wires: list[Wire] = field(default_factory=list)

    @property
    def url(self) -> str:
        """Its base URL."""
        return f"http://127.0.0.1:{self.port}"

    async def open(self) -> Wire:
        """A new connection."""
        self._wires.append(await Wire.open(self.port))
        return self._wires[-1]

    def hang_up(self) -> None:
        """Close every connection that a test has left open."""
        for wire in self._wires:
            wire.leave()
        self._wires.clear()

    async def get(self, path: str, key: str = "hr_acme") -> Any:
        """The JSON at ``path``."""
        wire = await self.open()
        wire.ask(path, key=key, method="GET")
        _, body = await wire.answer()
        return json.loads(body)

    def halves(self) -> dict[str, tuple[RequestHalf, ResponseHalf | None]]:
        """Every exchange in the journal by event id; None where it has no end."""
        private = KeyFiles(self.run_dir / "config").journal_private()
        found: dict[str, Any] = {}
        for files in list_segments(self.run_dir / "journal"):
            for one in SegmentReader(files, private).read():
                asked, got = found.get(one.half.event_id, (None, None))
                found[one.half.event_id] = (one.half, got) if isinstance(one.half, RequestHalf) else (asked, one.half)
        return found

    async def exchange(self, event_id: str) -> tuple[RequestHalf, ResponseHalf]:
        """Both halves of an exchange, once it has ended."""
        await eventually(lambda: self.halves().get(event_id, (None, None))[1] is not None)
        asked, got = self.halves()[event_id]
        assert got is not None
        return asked, got

    def rss_bytes(self) -> int:
        """Resident memory of the gateway and of what it started."""
        return sum(one.memory_info().rss for one in self._processes())

    def num_files(self) -> int:
        """Open files and sockets of the same."""
        return sum(one.num_fds() for one in self._processes())

    def _processes(self) -> list[psutil.Process]:
        return [self.process, *self.process.children(recursive=True)]


@asynccontextmanager
async def running_edge(engine_urls: list[str], **settings: Any) -> AsyncIterator[Edge]:
    """A gateway that is ready; ``settings`` are those of ``gateway.settings`` by name. It is killed at the end."""
    run_dir = Path(tempfile.mkdtemp(prefix="hr-"))
    (run_dir / "run").mkdir()
    ensure(run_dir / "config")
    port, dataproxy = free_port(), FakeDataProxy(list(KEYS))
    ours = {"data_dir": run_dir, "config_dir": run_dir / "config", "port": port, "engine_urls": json.dumps(engine_urls), **settings}
    environment = {**os.environ, **{f"HEADRACE_GATEWAY_{name.upper()}": str(value) for name, value in ours.items()}}
    try:
        with (run_dir / "gateway.log").open("wb") as log:
            async with dataproxy.serve(run_dir / "run" / "dataproxy.sock"):
                command = (sys.executable, "-m", "gateway")
                process = await asyncio.create_subprocess_exec(*command, env=environment, stderr=log)
                try:
                    edge = Edge(port, run_dir, psutil.Process(process.pid), dataproxy)
                    await _until_ready(edge, process)
                    yield edge
                finally:
                    edge.hang_up()
                    if process.returncode is None:
                        process.kill()
                    await process.wait()
    finally:
        shutil.rmtree(run_dir)


async def _until_ready(edge: Edge, process: asyncio.subprocess.Process) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not await _is_ready(edge):
            assert process.returncode is None, (edge.run_dir / "gateway.log").read_text()
            await asyncio.sleep(0.02)


async def _is_ready(edge: Edge) -> bool:
    """Whether it has keys and every worker that will come: ``/ready`` says so where none is to be down."""
    try:
        state = await edge.get("/ready")
    except OSError:
        return False
    return bool(state["keys_loaded"]) and "down" not in state["workers"].values()


async def eventually(condition: Callable[[], object]) -> None:
    """Turn the loop until ``condition()`` holds: for what happens in another process, which tells nobody."""
    async with asyncio.timeout(PATIENCE_S):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.005)


def free_port() -> int:
    """A port that is free now."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return int(probe.getsockname()[1])

"""``headrace up`` as a process that a program holds: the demo and the end-to-end tests start it this way, as a person would.

It runs under a guard, so whatever becomes of the program, nothing of it is left.
"""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType

from dataproxy.client import SyncDataProxyClient
from dataproxy.client.types import Consent, NewKey
from deploy.errors import StartFailed
from deploy.launcher import guard
from deploy.launcher.readiness import wait_key_works
from deploy.paths import Paths

START_TIMEOUT_S = 700.0
FINISH_TIMEOUT_S = 300.0
_GRACE_S = 90.0
_POLL_S = 0.1


@dataclass(slots=True)
class RunningStack:
    """A started Headrace. ``gateway`` and ``engine`` are base URLs without ``/v1``. Start it from the main thread."""

    paths: Paths
    process: subprocess.Popen[bytes]
    gateway: str = ""
    engine: str = ""
    engines: list[str] = field(default_factory=list)
    model: str = ""
    model_dir: Path = field(default_factory=Path)

    @classmethod
    def start(cls, paths: Paths, arguments: Sequence[str] = (), environment: Mapping[str, str] | None = None) -> "RunningStack":
        """Start ``headrace up`` with ``arguments`` on ``paths`` and a free port, and return at once; see ``wait_ready``."""
        paths.log_dir.mkdir(parents=True, exist_ok=True)
        paths.run_dir.mkdir(parents=True, exist_ok=True)
        where = ["--data-dir", str(paths.data_dir), "--config-dir", str(paths.config_dir), "--port", "0"]
        command = [sys.executable, "-m", "deploy.cli", "up", "--for-program", *where, *arguments]
        guarded = [sys.executable, "-I", "-S", guard.__file__, str(paths.run_dir / "headrace.pid"), str(_GRACE_S), str(os.getpid())]
        with (paths.log_dir / "headrace.log").open("ab") as log:
            process = subprocess.Popen(
                [*guarded, *command], env={**os.environ, **(environment or {})}, start_new_session=True,
                stdin=subprocess.DEVNULL, stdout=log, stderr=log,
            )  # fmt: skip
        return cls(paths, process)

    def wait_ready(self, timeout_s: float = START_TIMEOUT_S) -> "RunningStack":
        """Return once everything serves.

        Raises:
            StartFailed: it ended, or took longer; with its last words.
        """
        deadline = time.monotonic() + timeout_s
        while not self.paths.stack_file.exists():
            if self.process.poll() is not None or time.monotonic() > deadline:
                self.stop()
                raise StartFailed(f"headrace up did not start:\n{self.last_words()}")
            time.sleep(_POLL_S)
        facts = json.loads(self.paths.stack_file.read_text())
        self.gateway, self.engine, self.model = facts["gateway"], facts["engine"], facts["model"]
        self.model_dir, self.engines = Path(facts["model_dir"]), facts["engines"]
        return self

    def client(self, timeout_s: float = 60.0) -> SyncDataProxyClient:
        """A client of its data proxy with the operator's key. Close it."""
        return SyncDataProxyClient(self.paths.socket, (self.paths.config_dir / "admin.key").read_text().strip(), timeout_s)

    def new_agent(self, tenant: str, agent: str, training: bool, reason: str) -> str:
        """An agent with a consent of its own; its key, once the gateway takes it."""
        with self.client() as client:
            client.set_consent(Consent(tenant=tenant, agent=agent, recording=True, training=training, reason=reason))
            key = client.create_key(NewKey(tenant=tenant, agent=agent, role="agent")).key
        wait_key_works(self.gateway, key)
        return key

    def pid(self, name: str) -> int | None:
        """The process id of one program (``gateway``, ``engine``, …), None while it is down."""
        try:
            return int((self.paths.run_dir / f"{name}.pid").read_text())
        except (FileNotFoundError, ValueError):
            return None

    def finish(self, name: str, timeout_s: float = FINISH_TIMEOUT_S) -> None:
        """Tell one program that may finish to end after what it is doing, and wait for that.

        Raises:
            StartFailed: it took longer.
        """
        deadline = time.monotonic() + timeout_s
        if pid := self.pid(name):
            os.kill(pid, signal.SIGTERM)
        while self.pid(name) is not None:
            if time.monotonic() > deadline:
                raise StartFailed(f"{name} did not finish in {timeout_s:g} s:\n{self.last_words()}")
            time.sleep(_POLL_S)

    def check(self) -> None:
        """Raise StartFailed if it ended by itself."""
        if self.process.poll() is not None:
            raise StartFailed(f"headrace up ended by itself:\n{self.last_words()}")

    def last_words(self) -> str:
        """The last lines that it printed."""
        lines = (self.paths.log_dir / "headrace.log").read_text(errors="replace").splitlines()[-25:]
        return "\n".join(f"    {line}" for line in lines)

    def stop(self) -> None:
        """End it as Ctrl-C would, and wait."""
        if self.process.poll() is None:
            self.process.terminate()
        self.process.wait()

    def __enter__(self) -> "RunningStack":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.stop()

"""The agent and the user of the demo: processes that were given a base URL and a key, and nothing else of Headrace."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any

from deploy.errors import DemoFailed
from deploy.launcher import guard

ROOT = Path(__file__).parents[2]
_GRACE_S = 10.0


@dataclass(slots=True)
class JsonLines:
    """A file of JSON lines that another process appends to; ``new`` gives what came since the last look."""

    path: Path
    _offset: int = 0

    def new(self) -> list[dict[str, Any]]:
        """Whole lines only."""
        if not self.path.exists():
            return []
        with self.path.open("rb") as file:
            file.seek(self._offset)
            data = file.read()
        whole = data[: data.rfind(b"\n") + 1]
        self._offset += len(whole)
        return [json.loads(line) for line in whole.splitlines()]


@dataclass(slots=True)
class Actor:
    """One process under a guard. ``out`` is the file of JSON lines that it writes, named by its option ``out_option``."""

    module: str
    arguments: Sequence[str]
    base_url: str
    key: str
    out_option: str
    out: Path
    log: Path
    lines: JsonLines = field(init=False)
    _process: subprocess.Popen[bytes] | None = None

    def __post_init__(self) -> None:
        self.lines = JsonLines(self.out)

    def __enter__(self) -> "Actor":
        guarded = [sys.executable, "-I", "-S", guard.__file__, str(self.log.with_suffix(".pid")), str(_GRACE_S), str(os.getpid())]
        command = [*guarded, sys.executable, "-m", self.module, *self.arguments, self.out_option, str(self.out)]
        environment = {**os.environ, "OPENAI_BASE_URL": self.base_url, "OPENAI_API_KEY": self.key}
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                command, cwd=ROOT, env=environment, start_new_session=True, stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        assert self._process is not None
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
        self._process.wait()

    def check(self) -> None:
        """Raise DemoFailed if it ended with an error."""
        assert self._process is not None
        status = self._process.poll()
        if status not in (None, 0):
            tail = "\n".join(f"    {line}" for line in self.log.read_text(errors="replace").splitlines()[-12:])
            raise DemoFailed(f"{self.module} failed (exit status {status}); the last lines of {self.log}:\n{tail}")

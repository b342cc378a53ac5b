"""Starts programs of ours as processes forked from one that has imported what they need: real processes without their imports.

``python -m tests.forker MODULE…`` imports the modules and then takes orders on its standard input, one JSON object a line:
``{"start": {module, arguments, environment, log}}`` is answered by ``{"pid": …}``, ``{"wait": pid}`` by ``{"status": …}``. What it
started ends with it.
"""

import atexit
import ctypes
import importlib
import json
import os
import runpy
import select
import signal
import subprocess
import sys
import traceback
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

_PR_SET_PDEATHSIG = 1
_PATIENCE_S = 120.0
READY = {"ready": True}
_IMPORTED = (
    "workers.trainer.coordinator", "workers.trainer.learner", "workers.trainer.loop", "workers.trainer.metrics",
    "dataproxy.api.app", "dataproxy.services", "dataproxy.rewards.worker", "dataproxy.retain.keeper",
    "workers.trainer.gate", "workers.trainer.dry_run", "workers.trainer.publish", "workers.inference.client.broadcast",
    "workers.inference.client.buckets", "transformers.models.llama.modeling_llama", "tests.fakes.engine",
)  # fmt: skip


@dataclass
class Forked:
    """A process that was started; its end must be waited for. `status` is known then: −9 where it was killed."""

    forker: "Forker"
    pid: int
    status: int | None = None

    def wait(self) -> int:
        """Its exit status, once it has ended."""
        if self.status is None:
            self.status = self.forker.ask({"wait": self.pid})["status"]
            assert self.status is not None, f"process {self.pid} does not end"
        return self.status

    def end(self, by: signal.Signals = signal.SIGKILL) -> None:
        """End it by a signal and wait for that; nothing if it was waited for."""
        if self.status is None:
            os.kill(self.pid, by)
            self.wait()


class Forker:
    """The process that forks, with ``modules`` imported under ``environment``."""

    def __init__(self, modules: Iterable[str], environment: Mapping[str, str]) -> None:
        command = [sys.executable, "-m", "tests.forker", *modules]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=dict(environment), text=True)
        assert self._process.stdout is not None
        assert json.loads(self._process.stdout.readline()) == READY

    def start(self, module: str, arguments: Sequence[str], environment: Mapping[str, str], log: Path) -> Forked:
        """``python -m module arguments``, what it writes going to the end of ``log``."""
        order = {"module": module, "arguments": list(arguments), "environment": dict(environment), "log": str(log)}
        return Forked(self, int(self.ask({"start": order})["pid"]))

    def ask(self, order: dict[str, Any]) -> dict[str, Any]:
        """One order, answered."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps(order) + "\n")
        self._process.stdin.flush()
        answer: dict[str, Any] = json.loads(self._process.stdout.readline())
        return answer

    def close(self) -> None:
        """End it, and what it started."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()


@cache
def forker() -> Forker:
    """For trainers, keepers, publishers, data proxies and fake engines: one for the run."""
    made = Forker(_IMPORTED, os.environ | {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"})
    atexit.register(made.close)
    return made


def serve() -> None:
    """Take orders until there are no more."""
    orders, answers = os.fdopen(os.dup(0)), os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what an import prints is no answer
    answers.write(json.dumps(READY) + "\n")
    answers.flush()
    for line in orders:
        order = json.loads(line)
        answer = {"pid": _fork(order["start"])} if "start" in order else {"status": _wait(order["wait"])}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


def _wait(pid: int) -> int | None:
    """Its exit status; None if it does not end."""
    fd = os.pidfd_open(pid)
    try:
        ended, _, _ = select.select([fd], [], [], _PATIENCE_S)
    finally:
        os.close(fd)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) if ended else None


def _fork(order: dict[str, Any]) -> int:
    pid = os.fork()
    if pid:
        return pid
    try:
        status = _become(order)
    except BaseException:  # noqa: BLE001  a child never goes back into the forker
        traceback.print_exc()
        status = 1
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


def _become(order: dict[str, Any]) -> int:
    """The program, in this process: its environment, its arguments, its log."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    log, nothing = os.open(order["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), os.open(os.devnull, os.O_RDONLY)
    for number, source in enumerate((nothing, log, log)):
        os.dup2(source, number)
    os.environ.clear()
    os.environ.update(order["environment"])
    importlib.reload(importlib.import_module("atdp.faults"))  # it reads the environment when it is imported
    sys.argv = [order["module"], *order["arguments"]]
    try:
        runpy.run_module(order["module"], run_name="__main__", alter_sys=True)
    except SystemExit as end:
        if end.code is None or isinstance(end.code, int):
            return end.code or 0
        print(end.code, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    for name in sys.argv[1:]:
        importlib.import_module(name)
    serve()

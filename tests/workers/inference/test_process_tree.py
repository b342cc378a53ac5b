"""Nothing of an engine outlives its supervisor, however early that dies."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from tests.engine_fixture import free_port

pytestmark = pytest.mark.engine

PATIENCE_S = 240.0
SUPERVISOR = "import subprocess, sys; sys.exit(subprocess.Popen([sys.executable, '-m', 'workers.inference', *sys.argv[1:]]).wait())"


def until(condition, what: str) -> None:
    """Wait for `condition` of other processes."""
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.02)


def is_there(process: psutil.Process) -> bool:
    return process.is_running() and process.status() != psutil.STATUS_ZOMBIE


@pytest.mark.parametrize("who", ["supervisor", "engine"])
def test_killing_the_supervisor_or_the_engine_leaves_no_process(tiny_model_dir: Path, tmp_path: Path, who: str) -> None:
    arguments = ["--model-path", str(tiny_model_dir), "--port", str(free_port()), "--served-model-name", "tiny"]
    with (tmp_path / "log").open("wb") as log:
        child = subprocess.Popen([sys.executable, "-c", SUPERVISOR, *arguments], stdout=log, stderr=log, start_new_session=True)
    supervisor = psutil.Process(child.pid)
    try:
        until(lambda: _forked(supervisor), f"no scheduler was started: {(tmp_path / 'log').read_text()[-2000:]}")
        tree = [*supervisor.children(recursive=True), supervisor]
        os.kill(child.pid if who == "supervisor" else supervisor.children()[0].pid, signal.SIGKILL)
        child.wait()
        until(lambda: not any(is_there(process) for process in tree), "a process of the engine is still there")
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)


def _forked(supervisor: psutil.Process) -> bool:
    """The engine has forked a process of its own: that looks like its parent until it names itself."""
    return sum("sglang.launch_server" in _line(process) for process in supervisor.children(recursive=True)) > 1


def _line(process: psutil.Process) -> str:
    """Its command line; one that has ended (a helper of the imports) has none."""
    with contextlib.suppress(psutil.NoSuchProcess):  # a zombie is one, too
        return " ".join(process.cmdline())
    return ""

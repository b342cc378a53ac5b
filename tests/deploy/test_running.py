"""A program of a started Headrace is asked to finish, and waited for."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from deploy.errors import StartFailed
from deploy.launcher import guard
from deploy.launcher.running import RunningStack
from deploy.paths import Paths

BUSY = """
import signal, sys, time
from pathlib import Path
stop = []
signal.signal(signal.SIGTERM, lambda *_: stop.append(1))
Path(sys.argv[1]).touch()
while not stop or sys.argv[2] == "stubborn":
    time.sleep(0.01)
time.sleep(0.3)
Path(sys.argv[1]).write_text("its work to the end")
"""


@pytest.fixture
def stack(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[RunningStack]:
    """One whose trainer is busy; the process that holds it stands for ``headrace up``."""
    paths, work = Paths(tmp_path / "data", tmp_path / "config"), tmp_path / "work"
    for directory in (paths.run_dir, paths.log_dir):
        directory.mkdir(parents=True)
    (paths.log_dir / "headrace.log").write_text("it trains\n")
    guarded = [sys.executable, "-I", "-S", guard.__file__, str(paths.run_dir / "trainer.pid"), "1", str(os.getpid())]
    process = subprocess.Popen([*guarded, sys.executable, "-c", BUSY, str(work), request.param])
    while not work.exists():
        time.sleep(0.01)
    yield RunningStack(paths, process)
    process.terminate()
    process.wait()


@pytest.mark.parametrize("stack", ["willing"], indirect=True)
def test_it_ends_after_what_it_was_doing(stack: RunningStack, tmp_path: Path) -> None:
    stack.finish("trainer")
    assert (tmp_path / "work").read_text() == "its work to the end"
    stack.finish("trainer")  # nothing is left to wait for


@pytest.mark.parametrize("stack", ["stubborn"], indirect=True)
def test_one_that_does_not_end_is_said(stack: RunningStack) -> None:
    with pytest.raises(StartFailed, match=r"trainer did not finish in 0.2 s:\n.*it trains"):
        stack.finish("trainer", timeout_s=0.2)

"""The supervisor and its guards, over real processes: what starts, what is said, and that nothing outlives it."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.deploy.processes import wait_gone

_FAKE_STACK = Path(__file__).with_name("fake_stack.py")
_WAIT_S = 30.0

Start = Callable[..., subprocess.Popen[str]]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts a fake stack of the named programs; whatever the test leaves of it is ended."""
    started: list[subprocess.Popen[str]] = []

    def run(*names: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, str(_FAKE_STACK), str(tmp_path), *names], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        started.append(process)
        return process

    yield run
    for process in started:
        process.terminate()
        process.communicate(timeout=_WAIT_S)


def read_until(process: subprocess.Popen[str], word: str) -> list[str]:
    """The lines up to the one that holds ``word``."""
    assert process.stdout is not None
    lines = []
    for line in process.stdout:
        lines.append(line)
        if word in line:
            return lines
    raise AssertionError(f"ended before {word!r}: {lines} {process.stderr.read() if process.stderr else ''}")


def pid_in(path: Path) -> int:
    return int(path.read_text())


@pytest.mark.slow
def test_children_start_one_after_another_and_all_end_on_sigterm(start: Start, tmp_path: Path) -> None:
    process = start("steady", "parent")
    lines = read_until(process, "all are up")
    assert [line.split()[2] for line in lines if "is ready" in line] == ["steady", "parent"]
    pids = [pid_in(tmp_path / name) for name in ("steady", "parent", "parent.grandchild")]
    process.terminate()
    out, err = process.communicate(timeout=_WAIT_S)
    assert process.returncode == 0, err
    assert "nothing is left running" in out
    for pid in pids:
        wait_gone(pid)


def test_sigkill_of_the_supervisor_leaves_nothing_not_even_a_grandchild_in_its_own_session(start: Start, tmp_path: Path) -> None:
    process = start("parent")
    read_until(process, "all are up")
    pids = [pid_in(tmp_path / name) for name in ("parent", "parent.grandchild")]
    process.kill()
    for pid in pids:
        wait_gone(pid)


@pytest.mark.slow
def test_a_child_that_ignores_sigterm_is_killed_after_its_grace(start: Start, tmp_path: Path) -> None:
    process = start("stubborn")
    read_until(process, "all are up")
    pid = pid_in(tmp_path / "stubborn")
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=_WAIT_S)
    assert process.returncode == 0
    wait_gone(pid)


def test_a_child_that_dies_is_started_again_and_it_is_said(start: Start, tmp_path: Path) -> None:
    process = start("parent")
    read_until(process, "all are up")
    first, grandchild = pid_in(tmp_path / "parent"), pid_in(tmp_path / "parent.grandchild")
    (tmp_path / "parent").unlink()
    os.kill(first, signal.SIGKILL)
    lines = read_until(process, "starting it again")
    assert "killed by signal 9" in "".join(lines) and "the kernel" not in "".join(lines)  # nothing but our kill has happened
    wait_gone(grandchild)
    process.terminate()
    process.communicate(timeout=_WAIT_S)


def test_a_child_that_cannot_start_is_explained_and_the_others_end(start: Start, tmp_path: Path) -> None:
    process = start("steady", "broken")
    _, err = process.communicate(timeout=_WAIT_S)
    assert process.returncode == 1
    assert "broken ended while starting (exit status 1)" in err
    assert "I cannot start: no such model" in err
    assert "Try another one." in err
    wait_gone(pid_in(tmp_path / "steady"))


@pytest.mark.slow
def test_an_engine_that_dies_while_it_starts_is_named_with_its_log_and_what_it_needs(start: Start, tmp_path: Path) -> None:
    process = start("steady", "engine")
    _, err = process.communicate(timeout=_WAIT_S)
    assert process.returncode == 1
    assert err.startswith("engine ended while starting (killed by signal 9"), err
    assert f"The last lines of {tmp_path / 'engine.log'}:\n    Load weight begin.\n" in err
    assert err.rstrip().splitlines()[-1].startswith("The engine needs about 2.5 GiB of free memory; `--model tiny`")
    wait_gone(pid_in(tmp_path / "steady"))


@pytest.mark.slow
def test_ctrl_c_during_the_start_ends_what_runs_what_starts_and_what_has_not_begun(start: Start, tmp_path: Path) -> None:
    process = start("parent", "starting", "steady")
    begun = tmp_path / "starting.begun"
    while not (begun.exists() and begun.read_text()):
        assert process.poll() is None
        time.sleep(0.01)
    pids = [pid_in(path) for path in (tmp_path / "parent", tmp_path / "parent.grandchild", begun)]
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=_WAIT_S)
    assert process.returncode == 0, err
    assert "nothing is left running" in out and "all are up" not in out
    for pid in pids:
        wait_gone(pid)
    assert not (tmp_path / "steady").exists()


@pytest.mark.slow
def test_a_second_ctrl_c_kills_at_once_what_the_first_waits_for(start: Start, tmp_path: Path) -> None:
    process = start("deaf", "parent")
    read_until(process, "all are up")
    pids = [pid_in(tmp_path / name) for name in ("deaf", "parent", "parent.grandchild")]
    process.send_signal(signal.SIGINT)
    read_until(process, "parent has ended")  # it would wait for the other for an hour
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=_WAIT_S)
    assert process.returncode == 0, err
    assert "deaf has ended" in out and "nothing is left running" in out
    for pid in pids:
        wait_gone(pid)


def test_a_child_that_cannot_be_asked_and_refuses_its_settings_is_explained_too(start: Start) -> None:
    process = start("silent")
    _, err = process.communicate(timeout=_WAIT_S)
    assert process.returncode == 1
    assert "silent ended (exit status 2)" in err
    assert "no such setting" in err

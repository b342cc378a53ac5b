"""`headrace up` as a person meets it, with the real processes and the tiny model: the screens, the refusals, the end."""

import contextlib
import json
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from deploy.commands.console import URL
from deploy.launcher.checks import free_port
from tests.deploy.processes import wait_gone

pytestmark = [pytest.mark.e2e, pytest.mark.engine]

_WAIT_S = 400.0
_KEY = re.compile(r"hr_[A-Za-z0-9_-]{40,}")


class Up:
    """A running `headrace up`; ``screen`` is what it printed until it was ready."""

    def __init__(self, directory: Path, port: int) -> None:
        where = ["--data-dir", str(directory / "data"), "--config-dir", str(directory / "config"), "--port", str(port)]
        command = [sys.executable, "-m", "deploy.cli", "up", "--model", "tiny", "--no-train", *where]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        assert self.process.stdout is not None
        self.screen = ""
        for line in self.process.stdout:
            self.screen += line
            if "Ctrl-C ends everything" in line:
                return
        raise AssertionError(f"not ready: {self.screen}")

    def end(self, number: int = signal.SIGINT) -> str:
        self.process.send_signal(number)
        rest, _ = self.process.communicate(timeout=_WAIT_S)
        return str(rest)


@contextlib.contextmanager
def running(directory: Path, port: int) -> Iterator[Up]:
    up = Up(directory, port)
    try:
        yield up
    finally:
        if up.process.poll() is None:
            up.end()
        assert up.process.stdout is not None
        up.process.stdout.close()


def headrace(directory: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    where = ["--data-dir", str(directory / "data"), "--config-dir", str(directory / "config")]
    return subprocess.run(
        [sys.executable, "-m", "deploy.cli", *arguments, *where], capture_output=True, text=True, timeout=60, check=False
    )


def program_pids(directory: Path) -> dict[str, int]:
    return {path.stem: int(path.read_text()) for path in (directory / "data" / "run").glob("*.pid")}


def test_first_start_second_start_and_what_is_refused(tmp_path: Path) -> None:
    port = free_port()
    with running(tmp_path, port) as up:
        keys = _KEY.findall(up.screen)
        assert keys and len(set(keys)) == 1, up.screen
        assert f"http://127.0.0.1:{port}/v1" in up.screen
        assert f"headrace console, then {URL} in a browser" in up.screen
        assert "recording on, training off" in up.screen
        answer = httpx.post(
            f"http://127.0.0.1:{port}/v1/chat/completions", headers={"authorization": f"Bearer {keys[0]}"}, timeout=60.0,
            json={"model": "headrace-tiny", "max_tokens": 4, "messages": [{"role": "user", "content": "Hello"}]},
        )  # fmt: skip
        assert answer.status_code == 200, answer.text

        rewarded = headrace(tmp_path, "feedback", answer.json()["id"], "1")
        assert rewarded.returncode == 0, rewarded.stderr
        second = headrace(tmp_path, "up", "--model", "tiny", "--port", "0")
        assert second.returncode == 1 and "already runs" in second.stderr
        elsewhere = headrace(tmp_path / "elsewhere", "up", "--model", "tiny", "--port", str(port))
        assert elsewhere.returncode == 1 and f"Cannot listen on 127.0.0.1:{port}" in elsewhere.stderr

        pids = program_pids(tmp_path)
        assert set(pids) == {"dataproxy", "engine", "gateway", "keeper"}
        assert "nothing is left running" in up.end()
        assert not any(Path(f"/proc/{pid}").exists() for pid in pids.values())
        assert program_pids(tmp_path) == {}

    with running(tmp_path, port) as again:
        assert _KEY.findall(again.screen) == []
        status = headrace(tmp_path, "status", "--json")
        assert json.loads(status.stdout)["rewards"] == 1
        pids = program_pids(tmp_path)
        shown = headrace(tmp_path, "status").stdout
        assert all(f"process {pid}" in shown for pid in pids.values()), shown
        again.process.kill()
        again.process.wait()
        for pid in pids.values():
            wait_gone(pid)

"""``headrace export`` from end to end: a data proxy that serves, the command as a person gives it, the file read back."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from deploy.launcher.lock import InstanceLock
from tests.dataproxy.api.served import serve
from tests.dataproxy.exchanges import exchange, user, write
from tests.dataproxy.proxy import Clock, Proxy

pytestmark = pytest.mark.slow


def headrace(directory: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    where = ["--data-dir", str(directory / "data"), "--config-dir", str(directory / "config")]
    command = [sys.executable, "-m", "deploy.cli", "export", *arguments, *where]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


async def test_what_is_in_the_store_lands_in_the_file_that_was_named(tmp_path: Path) -> None:
    proxy = Proxy(tmp_path, Clock())
    proxy.consent()
    journal = proxy.journal()
    await write(journal, exchange([user("hi")], "hello", session="s1"), exchange([user("ho")], "hello", session="s2"))
    journal.close()
    proxy.drain()
    run_dir = tmp_path / "data" / "run"
    run_dir.mkdir(parents=True, exist_ok=True)
    with InstanceLock(run_dir), serve(proxy.services, run_dir / "dataproxy.sock"):
        done = headrace(
            tmp_path, "--format", "jsonl", "--out", str(tmp_path / "e.jsonl"), "--kind", "model_call", "--session", "s1"
        )
        assert done.returncode == 0, done.stderr
        assert done.stdout == f"1 row in {tmp_path / 'e.jsonl'}\n"
        assert json.loads((tmp_path / "e.jsonl").read_text())["session_id"] == "s1"
        done = headrace(tmp_path, "--format", "atif", "--out", f"{tmp_path / 'atif'}/", "--json")
        assert json.loads(done.stdout)["num"] == len(list((tmp_path / "atif").glob("*.json"))) == 2
        wrong = headrace(tmp_path, "--format", "chat", "--out", str(tmp_path / "c"), "--since", "yesterday")
        assert (wrong.returncode, wrong.stderr) == (
            1,
            "headrace: 'yesterday' is no time; write it as 2026-01-31 or 2026-01-31T12:00\n",
        )
    proxy.services.database.close()

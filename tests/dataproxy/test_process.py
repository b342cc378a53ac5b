"""The process itself, with the real redactor: starts, serves, drains, and survives kill -9 at its fault points."""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from dataproxy.capture import Journal
from dataproxy.client import SyncDataProxyClient
from dataproxy.client.types import Consent
from dataproxy.keyfiles import KeyFiles, ensure
from tests.chaos.rows import DRAIN
from tests.dataproxy.exchanges import MAC_SECRET, exchange, user, write

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[2]


@contextmanager
def process(directory: Path, **extra: str) -> Iterator[subprocess.Popen[bytes]]:
    """``python -m dataproxy`` over ``directory``; ended by its id."""
    own = {"HEADRACE_DATAPROXY_DATA_DIR": str(directory / "data"), "HEADRACE_DATAPROXY_CONFIG_DIR": str(directory / "config")}
    command = [sys.executable, "-m", "dataproxy"]
    with (
        (directory / "log").open("ab") as log,
        subprocess.Popen(command, cwd=ROOT, env=os.environ | own | extra, stderr=log) as running,
    ):
        try:
            yield running
        finally:
            running.kill()


def ask(directory: Path, files: KeyFiles, running: subprocess.Popen[bytes]) -> SyncDataProxyClient:
    """A client, once somebody answers."""
    client = SyncDataProxyClient(directory / "data" / "run" / "dataproxy.sock", files.api_key("admin"))
    while not answers(directory / "data" / "run" / "dataproxy.sock"):
        assert running.poll() is None, (directory / "log").read_text()
    return client


def answers(path: Path) -> bool:
    """Whether somebody listens on the socket."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        return probe.connect_ex(str(path)) == 0


def prepared(directory: Path) -> KeyFiles:
    files = ensure(directory / "config")
    (directory / "config" / "mac.key").write_text(MAC_SECRET.hex())
    return files


async def test_it_drains_what_was_journaled_and_ends_cleanly(tmp_path: Path) -> None:
    files = prepared(tmp_path)
    journal = Journal.open(tmp_path / "data" / "journal", files.journal_public())
    await write(journal, *(exchange([user(f"write to ann{i}@example.org")]) for i in range(5)))
    with process(tmp_path) as running:
        with ask(tmp_path, files, running) as client:
            client.set_consent(Consent("acme", True, True, "a test"))
            while client.status().events < 5:
                assert running.poll() is None
            assert client.status().redactions == {"EMAIL": 5} and client.status().journal_backlog == 0
        await write(journal, exchange([user("one more")]))
        running.send_signal(signal.SIGTERM)
        assert running.wait(30) == 0
    with process(tmp_path) as running, ask(tmp_path, files, running) as client:
        assert client.status().events == 6
    journal.close()


@pytest.mark.parametrize("point", DRAIN)
async def test_killed_at_its_fault_points_it_loses_nothing_and_repeats_nothing(tmp_path: Path, point: str) -> None:
    files = prepared(tmp_path)
    faults = tmp_path / "faults"
    faults.mkdir()
    journal = Journal.open(tmp_path / "data" / "journal", files.journal_public(), max_segment_bytes=4000)
    for round_number in range(1, 4):
        await write(journal, *(exchange([user(f"round {round_number} call {i}")]) for i in range(10)))
        (faults / f"{point}.kill").touch()
        with process(tmp_path, HEADRACE_FAULTS=str(faults)) as running:
            assert running.wait(60) == -signal.SIGKILL
        assert not (faults / f"{point}.kill").exists()
    journal.close()
    with process(tmp_path) as running, ask(tmp_path, files, running) as client:
        while client.status().journal_backlog or client.status().events < 30:
            assert running.poll() is None
        assert client.status().events == 30 and client.status().quarantine == {}


def test_a_second_one_says_who_is_there(tmp_path: Path) -> None:
    files = prepared(tmp_path)
    with process(tmp_path) as first, ask(tmp_path, files, first):
        second = subprocess.run(
            [sys.executable, "-m", "dataproxy"], cwd=ROOT, env=first_environment(tmp_path), capture_output=True, timeout=60
        )
    assert second.returncode == 1 and b"another data proxy has the store open" in second.stderr


@pytest.mark.parametrize(
    ("variable", "value", "message"),
    [("HEADRACE_DATAPROXY_TYPO", "1", b"no setting"), ("HEADRACE_DATAPROXY_CONFIG_DIR", "/nonexistent", b"is missing")],
)
def test_what_is_wrong_at_the_start_is_said_in_a_sentence(tmp_path: Path, variable: str, value: str, message: bytes) -> None:
    prepared(tmp_path)
    environment = first_environment(tmp_path) | {variable: value}
    ended = subprocess.run([sys.executable, "-m", "dataproxy"], cwd=ROOT, env=environment, capture_output=True, timeout=60)
    assert ended.returncode == 1 and message in ended.stderr and b"Traceback" not in ended.stderr


def first_environment(directory: Path) -> dict[str, str]:
    own = {"HEADRACE_DATAPROXY_DATA_DIR": str(directory / "data"), "HEADRACE_DATAPROXY_CONFIG_DIR": str(directory / "config")}
    return os.environ | own


def test_its_help_names_the_settings_and_starts_nothing(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "dataproxy", "--help"]
    done = subprocess.run(command, env=os.environ | {"HOME": str(tmp_path)}, capture_output=True, text=True, check=True)
    assert "HEADRACE_DATAPROXY_DATA_DIR\n    Holds journal/, store/ and run/." in done.stdout and "copy" in done.stdout
    assert list(tmp_path.iterdir()) == []

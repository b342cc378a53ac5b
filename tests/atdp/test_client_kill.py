"""Both ends killed: what the client's buffer took is stored, once, whatever dies in between."""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from sqlalchemy import create_engine, text

from atdp.client import EventClient, NotSent

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[2]
WRITER = """
import os, signal, sys
from pathlib import Path
from atdp.client import EventClient
client = EventClient(sys.argv[1], "hr_x", buffer=Path(sys.argv[2]), interval_s=60)
for number in range(200):
    client.record("file", y={"n": number})
os.kill(os.getpid(), signal.SIGKILL)
"""


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


@contextmanager
def receiver(directory: Path, port: int) -> Iterator[str]:
    """A data proxy; gives a key. It is killed at the end, without a chance to tidy up."""
    command = [sys.executable, str(Path(__file__).with_name("receiver.py")), str(directory), str(port)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}, text=True)
    assert process.stdout is not None
    try:
        yield process.stdout.readline().strip()
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def test_events_survive_the_writers_kill_a_server_that_is_away_and_one_that_is_killed_after_it_stored(tmp_path: Path) -> None:
    url, port = "", free_port()
    url = f"http://127.0.0.1:{port}"
    killed = subprocess.run([sys.executable, "-c", WRITER, url, str(tmp_path / "buffer")], check=False, cwd=ROOT)
    assert killed.returncode == -signal.SIGKILL
    client = EventClient(url, "hr_x", buffer=tmp_path / "buffer", interval_s=60)
    assert client.num_waiting == 200
    with pytest.raises(NotSent):
        client.flush(0.1)
    with pytest.raises(NotSent):
        client.close(0.1)
    with receiver(tmp_path / "proxy", port) as key:
        before = (tmp_path / "buffer" / "cursor").read_text() if (tmp_path / "buffer" / "cursor").exists() else "0 0"
        client = EventClient(url, key, buffer=tmp_path / "buffer", interval_s=60)
        assert client.flush(30).num_stored == 200
        client.record("file", y={"n": 200})
    with pytest.raises(NotSent):
        client.close(0.1)
    (tmp_path / "buffer" / "cursor").write_text(before)  # as if killed between the receipts and the cursor
    with receiver(tmp_path / "proxy", port) as key, EventClient(url, key, buffer=tmp_path / "buffer", interval_s=60) as client:
        outcome = client.flush(30)
    assert (outcome.num_stored, outcome.num_duplicate) == (1, 200)
    engine = create_engine(f"sqlite:///{tmp_path / 'proxy' / 'data' / 'store' / 'headrace.db'}")
    with engine.connect() as connection:
        count, distinct = connection.execute(text("select count(*), count(distinct event_id) from event where kind = 'file'")).one()
    engine.dispose()
    assert (count, distinct) == (201, 201)

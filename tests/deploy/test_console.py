"""`headrace console`: serves while it runs, on loopback, and says why where it cannot."""

import json
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from deploy.launcher.lock import InstanceLock
from tests.console.browse import served
from tests.dataproxy.proxy import Clock, Proxy

pytestmark = pytest.mark.slow
_COMMAND = (sys.executable, "-m", "deploy.cli", "console")


def test_it_prints_where_it_serves_and_ends_when_told(tmp_path: Path) -> None:
    proxy = Proxy(tmp_path, Clock())
    run_dir = proxy.data_dir / "run"
    with InstanceLock(run_dir), served(proxy.services, run_dir) as socket:
        socket.rename(run_dir / "dataproxy.sock")
        where = ("--data-dir", str(proxy.data_dir), "--config-dir", str(tmp_path / "config"))
        with subprocess.Popen([*_COMMAND, "--port", "0", "--json", *where], stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            url = json.loads(process.stdout.readline())["url"]
            assert url.startswith("http://127.0.0.1:")
            assert "Sign in" in httpx.get(f"{url}/", follow_redirects=True, timeout=60).text
            process.terminate()
            assert process.wait(60) in (0, -15)
    proxy.services.database.close()


@pytest.mark.parametrize(
    ("arguments", "said"), [(("--host", "0.0.0.0"), "--behind-https"), ((), "headrace up")], ids=["open to others", "nothing runs"]
)
def test_where_it_cannot_serve_it_says_what_to_do(tmp_path: Path, arguments: tuple[str, ...], said: str) -> None:
    done = subprocess.run(
        [*_COMMAND, "--data-dir", str(tmp_path), *arguments], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode != 0 and said in done.stderr and "Traceback" not in done.stderr

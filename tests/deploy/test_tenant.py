"""``headrace tenant`` from end to end: out of a store on SQLite, into one on PostgreSQL, by the commands as a person gives them."""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from dataproxy.store.database import Database
from deploy.launcher.lock import InstanceLock
from tests.dataproxy.api.served import serve
from tests.dataproxy.exchanges import exchange, user, write
from tests.dataproxy.proxy import Clock, Proxy
from tests.postgres import HOW_TO_GET_IT, find_binaries, temporary_postgres

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(find_binaries() is None, reason=f"NOT TESTED: {HOW_TO_GET_IT}"),
]


def headrace(directory: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    where = ["--data-dir", str(directory / "data"), "--config-dir", str(directory / "config")]
    command = [sys.executable, "-m", "deploy.cli", "tenant", *arguments, *where]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


@contextmanager
def running(proxy: Proxy) -> Iterator[None]:
    run_dir = proxy.data_dir / "run"
    run_dir.mkdir(parents=True, exist_ok=True)
    with InstanceLock(run_dir), serve(proxy.services, run_dir / "dataproxy.sock"):
        yield
    proxy.services.database.close()


async def test_a_tenant_goes_from_sqlite_to_postgresql_and_what_is_wrong_is_said(tmp_path: Path) -> None:
    source, file = Proxy(tmp_path / "a", Clock()), tmp_path / "acme.tar"
    source.consent()
    journal = source.journal()
    await write(journal, exchange([user("hi")], "hello", prompt=[1]), exchange([user("ho")], "hello", prompt=[2]))
    journal.close()
    source.drain()
    with running(source):
        done = headrace(tmp_path / "a", "export", "acme", "--out", str(file))
        assert done.returncode == 0 and done.stdout.endswith(" MB)\n") and str(file) in done.stdout, done.stderr
        missing = headrace(tmp_path / "a", "export", "nobody", "--out", str(tmp_path / "no.tar"))
        assert (missing.returncode, missing.stderr) == (1, "headrace: no tenant nobody\n") and not (tmp_path / "no.tar").exists()
    with temporary_postgres() as server:
        target = Proxy(tmp_path / "b", Clock(), database=Database(server.new_database().urls))
        with running(target):
            unknown = headrace(tmp_path / "b", "import", str(file))
            assert unknown.returncode == 1 and "--signed-by" in unknown.stderr and "Traceback" not in unknown.stderr
            signer = source.files.ledger_public().hex()
            done = headrace(tmp_path / "b", "import", str(file), "--signed-by", signer, "--json")
            assert json.loads(done.stdout) == {"tenant": "acme", "num_rows": json.loads(done.stdout)["num_rows"], "signer": signer}
            again = headrace(tmp_path / "b", "import", str(file), "--signed-by", signer)
            assert again.returncode == 1 and "in this store already" in again.stderr
            bad = headrace(tmp_path / "b", "import", str(file), "--signed-by", "me")
            assert bad.returncode == 1 and "64 hex digits" in bad.stderr

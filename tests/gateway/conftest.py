"""A gateway on a real socket before a fake engine, with a journal in memory and a fake data proxy on a Unix socket."""

import shutil
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from dataproxy.keyfiles import ensure
from gateway.app import App, create_gateway
from gateway.polling import KeyPoller, WorkerPoller
from gateway.settings import Settings
from gateway.state import Gateway
from tests.fakes.dataproxy import FakeDataProxy, key_row
from tests.fakes.engine import FakeEngine
from tests.fakes.journal import FakeJournal
from tests.fakes.serving import serve

KEYS = [
    key_row("hr_acme"),
    key_row("hr_other", tenant="other"),
    key_row("hr_quiet", tenant="quiet", record=False),
    key_row("hr_limited", models=["tiny"]),
    key_row("hr_elsewhere", models=["large"]),
    key_row("hr_revoked", revoked=True),
    key_row("hr_expired", expires_us=1),
    key_row("hr_reviewer", role="reviewer"),
    key_row("hr_admin", role="admin"),
]


@dataclass
class Served:
    """One gateway and what stands around it."""

    url: str
    gateway: Gateway
    journal: FakeJournal
    engine: FakeEngine
    dataproxy: FakeDataProxy

    def client(self, key: str = "hr_acme", **kwargs: Any) -> httpx.AsyncClient:
        """An HTTP client with ``key``."""
        return httpx.AsyncClient(base_url=self.url, headers={"authorization": f"Bearer {key}"}, timeout=20, **kwargs)


@pytest.fixture
def run_dir() -> Iterator[Path]:
    """A directory whose path is short enough for a Unix socket."""
    path = Path(tempfile.mkdtemp(prefix="hr-"))
    (path / "run").mkdir()
    ensure(path / "config")
    yield path
    shutil.rmtree(path)


def serve_gateway(gateway: Gateway) -> AbstractAsyncContextManager[str]:
    """``gateway`` on a real socket, with its own HTTP protocol; gives its base URL."""
    app = App(gateway)
    return serve(app, http=app.http_protocol)


@asynccontextmanager
async def run_gateway(run_dir: Path, engine: FakeEngine, engine_urls: list[str], **settings: Any) -> AsyncIterator[Served]:
    """A gateway that has polled keys and workers once."""
    dataproxy, journal = FakeDataProxy(list(KEYS)), FakeJournal()
    made = Settings(data_dir=run_dir, config_dir=run_dir / "config", engine_urls=tuple(engine_urls), **settings)
    gateway = create_gateway(made, journal)
    async with dataproxy.serve(run_dir / "run" / "dataproxy.sock"), serve_gateway(gateway) as url:
        await KeyPoller(gateway)()
        await WorkerPoller(gateway)()
        yield Served(url, gateway, journal, engine, dataproxy)


@pytest.fixture
async def served(run_dir: Path) -> AsyncIterator[Served]:
    """A gateway with one engine."""
    engine = FakeEngine()
    async with engine.serve() as engine_url, run_gateway(run_dir, engine, [engine_url]) as running:
        yield running

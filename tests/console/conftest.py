"""A store with a story in it, served, and browsers that are signed in."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest
from selenium.webdriver.remote.webdriver import WebDriver
from sqlalchemy import func, select

from dataproxy.store.schema import access_log, log_leaf
from tests.console.browse import Browser, browsing, served
from tests.console.chrome import chromium, find_chromium, relayed, sign_in
from tests.console.story import NOW_US, tell
from tests.dataproxy.proxy import Clock, Proxy


@dataclass(slots=True)
class Stage:
    """``names`` are the story's trajectories; ``browser`` opens one that is signed in with a new key of a role."""

    proxy: Proxy
    names: dict[str, str]
    socket: Path
    browser: Callable[..., Browser]

    def leaves(self, kind: str) -> int:
        """How many of ``kind`` stand in the logs."""
        return int(self.proxy.rows(select(func.count()).select_from(log_leaf).where(log_leaf.c.kind == kind))[0][0])

    def on_record(self, what: str) -> list[str]:
        """What every act or read of the kind ``what`` was of, oldest first: those that have their leaf in the logs."""
        same = (log_leaf.c.kind == "access_log") & (log_leaf.c.row_key == access_log.c.event_id)
        query = select(access_log.c.target).join(log_leaf, same).where(access_log.c.what == what).order_by(access_log.c.event_id)
        return [row.target for row in self.proxy.rows(query)]


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """A data proxy that has seen the story, shared by a file's tests: its clock only goes on, and what one adds may stand there."""
    tmp_path = tmp_path_factory.mktemp("console")
    proxy = Proxy(tmp_path, Clock(NOW_US))
    proxy.consent()
    names = asyncio.run(tell(proxy))
    with ExitStack() as stack:
        socket = stack.enter_context(served(proxy.services, tmp_path))

        def browser(role: str | None = "reviewer", tenant: str = "acme", **headers: str) -> Browser:
            made = stack.enter_context(browsing(proxy.services, socket, **headers))
            if role is not None:
                assert made.sign_in(proxy.key(role, tenant)).status_code == 200
            return made

        yield Stage(proxy, names, socket, browser)
    proxy.services.database.close()


@pytest.fixture(scope="module")
def console(stage: Stage) -> Iterator[tuple[WebDriver, str, Stage]]:
    """A browser that an admin has signed in with, the console's address, and the stage."""
    if find_chromium() is None:
        pytest.skip("NOT TESTED: there is no Chromium on this machine; on Debian: apt-get install -y chromium chromium-driver")
    with relayed(stage.socket) as address, chromium() as driver:
        sign_in(driver, address, stage.proxy.key("admin"))
        yield driver, address, stage

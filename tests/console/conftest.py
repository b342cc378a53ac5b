"""A store with a story in it, served, and browsers that are signed in."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.console.browse import Browser, browsing, served
from tests.console.story import NOW_US, tell
from tests.dataproxy.proxy import Clock, Proxy


@dataclass(slots=True)
class Stage:
    """``names`` are the story's trajectories; ``browser`` opens one that is signed in with a new key of a role."""

    proxy: Proxy
    names: dict[str, str]
    socket: Path
    browser: Callable[..., Browser]


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

"""The ground of the cases: a gateway process a module before the scripted engine, on one event loop; a data proxy to drain into."""

from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
import pytest_asyncio

from tests.cases.edge import Edge, running_edge
from tests.dataproxy.proxy import Clock, Proxy
from tests.fakes.engine import FakeEngine
from tests.fakes.generation import Model


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def standing() -> AsyncIterator[tuple[Edge, FakeEngine]]:
    """A gateway process and its engine, for a whole module."""
    engine = FakeEngine()
    async with AsyncExitStack() as stack:
        url = await stack.enter_async_context(engine.serve())
        yield await stack.enter_async_context(running_edge([url])), engine


@pytest_asyncio.fixture(loop_scope="module")
async def edge(standing: tuple[Edge, FakeEngine], engine: FakeEngine) -> AsyncIterator[Edge]:
    """The module's gateway."""
    yield standing[0]
    standing[0].hang_up()


@pytest_asyncio.fixture(loop_scope="module")
async def engine(standing: tuple[Edge, FakeEngine]) -> AsyncIterator[FakeEngine]:
    """The module's engine, as new for every test."""
    made = standing[1]
    yield made
    made.script, made.disconnects, made.model.token_gate = None, 0, None
    made.model.reply = Model.reply
    made.model.unpaused.set()
    made.model.aborted.clear()
    made.calls.clear()


@pytest.fixture
def proxy(tmp_path: Path) -> Iterator[Proxy]:
    """A data proxy on an empty directory; acme consents to everything."""
    made = Proxy(tmp_path, Clock())
    made.consent()
    yield made
    made.services.database.close()

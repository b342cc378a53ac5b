"""An agent cannot tell the gateway from its engine: 300 drawn requests, asked of real SGLang directly and through the gateway.

Status, body and the content of streams are the same apart from ids and times. Each call starts from an empty prefix cache, and
one runs at a time: batches would add in another order. The direct call carries our id header, under which the plug-in repairs the
dialects, but orders no record: what is recorded must not show.
"""

import json
from collections import Counter
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
import pytest_asyncio

from gateway.dialects import BY_PATH
from tests.cases.edge import Edge, running_edge
from tests.cases.wire import Wire
from tests.e2e.comparable import comparable
from tests.e2e.drawn_requests import DrawnRequest, draw
from tests.engine_fixture import RunningEngine

pytestmark = [pytest.mark.engine, pytest.mark.asyncio(loop_scope="module")]

NUM_REQUESTS = 300
_HEADERS = ("content-type", "cache-control")
_SHOWN = 3
_GENERATING = [path for path, dialect in BY_PATH.items() if dialect.generates]
_LEAST = {(path, how): least for path in _GENERATING for how, least in (("streamed", 12), ("whole", 12), ("refused", 4))}
_LEAST |= {("/v1/messages/count_tokens", how): 2 for how in ("whole", "refused")}
"""By path and outcome: fewer would not tell."""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def edge(sglang_engine: RunningEngine) -> AsyncIterator[Edge]:
    async with running_edge([sglang_engine.url]) as running:
        yield running


async def ask(port: int, drawn: DrawnRequest, **headers: str) -> Any:
    """What an agent sees of the answer: status, headers, content."""
    wire = await Wire.open(port)
    try:
        wire.ask(drawn.path, drawn.body, **headers)
        head, body = await wire.answer()
        kept = {name: head.headers.get(name) for name in _HEADERS}
        return head.status, kept, comparable(head.headers.get("content-type", ""), body)
    finally:
        wire.leave()


def outcome(answer: Any) -> str:
    """How the engine took a request: as a stream, as one document, or not at all."""
    status, headers, _ = answer
    if status != 200:
        return "refused"
    return "streamed" if headers["content-type"].startswith("text/event-stream") else "whole"


async def forget(engine: httpx.AsyncClient) -> None:
    """Empty the prefix cache, once the engine has put the last call away."""
    while (await engine.post("/flush_cache")).status_code != 200:
        pass


async def test_the_gateway_answers_as_the_engine_does(edge: Edge, sglang_engine: RunningEngine) -> None:
    port, differing, seen = int(sglang_engine.url.rpartition(":")[2]), [], Counter[tuple[str, str]]()
    async with httpx.AsyncClient(base_url=sglang_engine.url, timeout=300) as engine:
        for number, drawn in enumerate(draw(NUM_REQUESTS)):
            await forget(engine)
            direct = await ask(port, drawn, x_headrace_rid=f"direct-{number}", x_headrace_cache_salt="direct")
            await forget(engine)
            through = await ask(edge.port, drawn)
            seen[drawn.path, outcome(direct)] += 1
            if through != direct:
                differing.append(f"{drawn.path} {json.dumps(drawn.body)}\n  directly: {direct}\n  through:  {through}")
    assert not differing, f"{len(differing)} of {NUM_REQUESTS} differ:\n" + "\n".join(differing[:_SHOWN])
    assert all(seen[which] >= least for which, least in _LEAST.items()), seen

"""An agent cannot tell the gateway from its engine: 300 drawn requests, asked of real SGLang directly and through the gateway.

Status, body and the content of streams are the same apart from ids and times. Each call starts from an empty prefix cache, and
one runs at a time: batches would add in another order. The direct call carries our id header, under which the plug-in repairs the
dialects, but orders no record: what is recorded must not show.
"""

import json
import re
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
from tests.e2e.drawn_requests import Body, draw
from tests.engine_fixture import RunningEngine

pytestmark = [pytest.mark.engine, pytest.mark.asyncio(loop_scope="module")]

NUM_REQUESTS = 300
NUM_CHAINS = 40
_RESPONSE_ID = re.compile(rb'"id": ?"(resp_[^"]+)"')
RESPONSES = "/v1/responses"
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


async def ask(port: int, path: str, body: Body | None = None, known: str = "", **headers: str) -> tuple[Any, str]:
    """What an agent sees of the answer (status, headers, content), and the id of the response in it, if any.

    Without a ``body`` it is a GET. ``known``, the id of an earlier response, is taken out of what is seen.
    """
    wire = await Wire.open(port)
    try:
        wire.ask(path, body or b"", method="GET" if body is None else "POST", **headers)
        head, answer = await wire.answer()
        kept = {name: head.headers.get(name) for name in _HEADERS}
        named = _RESPONSE_ID.search(answer)
        shown = answer.replace(known.encode(), b"known") if known else answer
        return (head.status, kept, comparable(head.headers.get("content-type", ""), shown)), named[1].decode() if named else ""
    finally:
        wire.leave()


def outcome(answer: Any) -> str:
    """How the engine took a request: as a stream, as one document, or not at all."""
    status, headers, _ = answer
    if status != 200:
        return "refused"
    return "streamed" if headers["content-type"].startswith("text/event-stream") else "whole"


def direct_headers(name: str) -> dict[str, str]:
    """What the gateway would set, apart from the order to record."""
    return {"x_headrace_rid": name, "x_headrace_cache_salt": "direct"}


async def forget(engine: httpx.AsyncClient) -> None:
    """Empty the prefix cache, once the engine has put the last call away."""
    while (await engine.post("/flush_cache")).status_code != 200:
        pass


async def test_the_gateway_answers_as_the_engine_does(edge: Edge, sglang_engine: RunningEngine) -> None:
    port, differing, seen = int(sglang_engine.url.rpartition(":")[2]), [], Counter[tuple[str, str]]()
    async with httpx.AsyncClient(base_url=sglang_engine.url, timeout=300) as engine:
        for number, drawn in enumerate(draw(NUM_REQUESTS)):
            await forget(engine)
            direct, _ = await ask(port, drawn.path, drawn.body, **direct_headers(f"direct-{number}"))
            await forget(engine)
            through, _ = await ask(edge.port, drawn.path, drawn.body)
            seen[drawn.path, outcome(direct)] += 1
            if through != direct:
                differing.append(f"{drawn.path} {json.dumps(drawn.body)}\n  directly: {direct}\n  through:  {through}")
    assert not differing, f"{len(differing)} of {NUM_REQUESTS} differ:\n" + "\n".join(differing[:_SHOWN])
    assert all(seen[which] >= least for which, least in _LEAST.items()), seen


async def test_a_response_is_read_back_and_answered_on_as_with_the_engine(edge: Edge, sglang_engine: RunningEngine) -> None:
    port, seen = int(sglang_engine.url.rpartition(":")[2]), Counter[Any]()
    drawn = [one.body for one in draw(NUM_REQUESTS) if one.path == RESPONSES][:NUM_CHAINS]
    drawn += [{**body, "store": False} for body in drawn[:8]]
    async with httpx.AsyncClient(base_url=sglang_engine.url, timeout=300) as engine:

        async def chain(port: int, number: int, first: Body, **headers: str) -> list[Any]:
            """The answers to ``first``, to a look at what was kept of it, and to what is said on it."""
            await forget(engine)
            answer, name = await ask(port, RESPONSES, first, **headers)
            if not name:
                return [answer]
            await forget(engine)
            on = {key: value for key, value in first.items() if key != "input"} | {"input": "And?", "previous_response_id": name}
            if headers:
                headers["x_headrace_rid"] = f"resp_direct-on-{number}"
            said, _ = await ask(port, RESPONSES, on, known=name, **headers)
            kept, _ = await ask(port, f"{RESPONSES}/{name}", known=name)
            return [answer, said, kept]

        for number, first in enumerate(drawn):
            direct = await chain(port, number, first, **direct_headers(f"resp_direct-{number}"))
            through = await chain(edge.port, number, first)
            assert through == direct, f"{json.dumps(first)}\n  directly: {direct}\n  through:  {through}"
            seen[tuple(status for status, *_ in direct)] += 1
    assert seen[200, 200, 200] >= NUM_CHAINS // 4, seen
    assert sum(count for statuses, count in seen.items() if statuses[1:] == (404, 404)) >= 2, f"what was not kept: {seen}"

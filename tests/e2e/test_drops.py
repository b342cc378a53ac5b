"""2,000 connections that are dropped in the middle leave no request in the engine, no memory and no file in the gateway."""

import asyncio
import json
import random
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Any

import httpx
import pytest
import pytest_asyncio

from tests.cases.edge import PATIENCE_S, Edge, eventually, running_edge
from tests.cases.engines import END, STREAM_HEAD, RawEngine, chunk
from tests.cases.speech import CHAT, Speech
from tests.e2e.drops import POINTS, drop_many
from tests.engine_fixture import RunningEngine

pytestmark = pytest.mark.asyncio(loop_scope="module")

NUM_DROPS = 2000
MORE_BYTES = 4 << 20
"""What the second thousand may add to the gateway's memory: the allocator's noise. A leak of 4 KB a call would be as much."""
EVENT = b'data: {"a":1}\n\n'


@dataclass
class LongWinded:
    """Gives as many events as its request says, in as many chunks, and then nothing until the gateway hangs up."""

    engine: RawEngine
    num_running: int = 0

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        body = json.loads(self.engine.asked.pop()[1])
        self.num_running += 1
        try:
            if "events" in body:
                writer.write(STREAM_HEAD)
            for _ in range(body.get("events", 0)):
                writer.write(chunk(EVENT))
                await writer.drain()
            if body.get("ends"):
                writer.write(END)
            else:
                await reader.read()
        finally:
            self.num_running -= 1


def many_events(speech: Speech, chance: random.Random, is_stream: bool) -> dict[str, Any]:
    """A call of the engine above."""
    return speech.ask("x" * chance.randrange(2000), stream=is_stream, **({"events": 5} if is_stream else {}))


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def standing() -> AsyncIterator[tuple[Edge, LongWinded]]:
    engine = RawEngine(handler=None)  # type: ignore[arg-type]
    engine.handler = long_winded = LongWinded(engine)
    async with AsyncExitStack() as stack:
        url = await stack.enter_async_context(engine.serve())
        yield await stack.enter_async_context(running_edge([url])), long_winded


async def test_two_thousand_dropped_connections_leave_nothing_behind(standing: tuple[Edge, LongWinded]) -> None:
    edge, engine = standing
    chance = random.Random(20)
    await drop_many(edge, 200, many_events, chance)  # what grows once has grown
    await quiet(edge, engine)
    num_files = edge.num_files()
    first = await drop_many(edge, NUM_DROPS // 2, many_events, chance)
    await quiet(edge, engine)
    rss_bytes = edge.rss_bytes()
    second = await drop_many(edge, NUM_DROPS // 2, many_events, chance)
    await quiet(edge, engine)
    assert edge.rss_bytes() - rss_bytes < MORE_BYTES
    await eventually(lambda: edge.num_files() <= num_files)
    points = first.points + second.points
    assert points.pop("refused", 0) == 0 and set(points) == set(POINTS) and points.total() == NUM_DROPS
    check_journal(edge, first.events | second.events, may_end=False)
    await still_serves(edge, events=1, ends=True)


async def quiet(edge: Edge, engine: LongWinded) -> None:
    """Wait until the engine runs nothing and the journal has the end of every exchange."""
    await eventually(lambda: engine.num_running == 0)
    await eventually(lambda: all(got is not None for _, got in edge.halves().values()))


def check_journal(edge: Edge, seen: set[str], may_end: bool) -> None:
    """Every exchange has its end, and those that an agent saw begin are there; some are whole where the engine ``may_end``."""
    halves = edge.halves()
    assert seen and seen <= halves.keys()
    ended = Counter(got.delivery if got is not None else "open" for _, got in halves.values())
    assert ended.keys() == {"disconnected"} or (may_end and ended.keys() == {"disconnected", "complete"}), ended


async def still_serves(edge: Edge, **more: Any) -> None:
    """A call that nobody drops is answered."""
    wire = await edge.open()
    wire.ask(CHAT.path, CHAT.ask(stream=True, **more))
    head, body = await wire.answer()
    assert head.status == 200 and body


def many_tokens(speech: Speech, chance: random.Random, is_stream: bool) -> dict[str, Any]:
    """A call that keeps the tiny model busy for seconds."""
    limit = "max_output_tokens" if speech.name == "responses" else "max_tokens"
    body = speech.ask(f"{chance.random()} tell me of rivers", stream=is_stream, temperature=1.0, ignore_eos=True)
    return body | {limit: 1500}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def sglang_edge(sglang_engine: RunningEngine) -> AsyncIterator[Edge]:
    async with running_edge([sglang_engine.url]) as edge:
        yield edge


@pytest.mark.engine
@pytest.mark.parametrize("number", [100, pytest.param(NUM_DROPS, marks=pytest.mark.soak)])
async def test_dropped_connections_leave_no_request_in_sglang(sglang_edge: Edge, sglang_engine: RunningEngine, number: int) -> None:
    async with httpx.AsyncClient(base_url=sglang_engine.url, timeout=PATIENCE_S) as engine:
        aborted = (await engine.get("/headrace/engine")).json()["num_aborted"]
        drops = await drop_many(sglang_edge, number, many_tokens, random.Random(number))
        async with asyncio.timeout(PATIENCE_S):
            while await num_in_sglang(engine):  # noqa: ASYNC110
                await asyncio.sleep(0.02)
        await eventually(lambda: all(got is not None for _, got in sglang_edge.halves().values()))
        check_journal(sglang_edge, drops.events, may_end=True)
        assert (await engine.get("/headrace/engine")).json()["num_aborted"] >= aborted
        await still_serves(sglang_edge, max_tokens=2)


async def num_in_sglang(engine: httpx.AsyncClient) -> int:
    """Requests that its HTTP process or its scheduler still holds."""
    state, loads = (await engine.get("/headrace/engine")).json(), (await engine.get("/v1/loads")).json()
    return int(state["num_in_flight"]) + sum(int(one["num_running_reqs"]) + int(one["num_waiting_reqs"]) for one in loads["loads"])

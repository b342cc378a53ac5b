"""Agents that leave: whatever the moment and the manner, the engine is told at once, and the journal says so."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

import pytest
import pytest_asyncio

from tests.cases.edge import PATIENCE_S, Edge, eventually, running_edge
from tests.cases.engines import END, STREAM_HEAD, RawEngine, chunk
from tests.cases.speech import Speech, each
from tests.cases.wire import Wire, request

pytestmark = pytest.mark.asyncio(loop_scope="module")

EVENT = b'data: {"a":1}\n\n'
HALF_A_JSON_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 1000\r\n\r\n"
MOMENTS = {
    "silent prefill of a stream": (b"", True),
    "silent call that is not streamed": (b"", False),
    "after the head": (STREAM_HEAD, True),
    "in the middle of a stream": (STREAM_HEAD + chunk(EVENT), True),
    "in the middle of an event": (STREAM_HEAD + chunk(EVENT + b'data: {"b'), True),
    "in the middle of a JSON answer": (HALF_A_JSON_HEAD + b'{"id":', False),
}
each_moment = pytest.mark.parametrize(("said", "is_stream"), MOMENTS.values(), ids=MOMENTS)
each_way = pytest.mark.parametrize("way", [Wire.leave, Wire.vanish, Wire.half_close], ids=["closes", "resets", "half-closes"])


class Silent:
    """Says ``said`` and nothing more; ``reached`` once it has, ``told`` once the gateway has hung up."""

    def __init__(self) -> None:
        self.said, self.reached, self.told = b"", asyncio.Event(), asyncio.Event()

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(self.said)
        self.reached.set()
        try:
            assert await reader.read() == b""
        finally:
            self.told.set()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def standing() -> AsyncIterator[tuple[Edge, RawEngine]]:
    engine = RawEngine(Silent())
    async with AsyncExitStack() as stack:
        url = await stack.enter_async_context(engine.serve())
        yield await stack.enter_async_context(running_edge([url])), engine


@pytest_asyncio.fixture(loop_scope="module")
async def edge(standing: tuple[Edge, RawEngine]) -> Edge:
    return standing[0]


@pytest_asyncio.fixture(loop_scope="module")
async def silent(standing: tuple[Edge, RawEngine]) -> AsyncIterator[Silent]:
    _, engine = standing
    engine.handler = Silent()
    engine.asked.clear()
    engine.aborted.clear()
    yield engine.handler


@each
@each_moment
@each_way
async def test_the_engine_is_told_that_the_agent_has_left(
    standing: tuple[Edge, RawEngine], silent: Silent, speech: Speech, said: bytes, is_stream: bool, way: object
) -> None:
    edge, engine = standing
    silent.said = said
    wire = await edge.open()
    wire.ask(speech.path, speech.ask(stream=is_stream))
    await silent.reached.wait()
    if said.startswith(STREAM_HEAD):
        await wire.head()
        await wire.until(EVENT if EVENT in said else b"")
    way(wire)  # type: ignore[operator]
    await asyncio.wait_for(silent.told.wait(), PATIENCE_S)
    await eventually(lambda: len(engine.aborted) == 1)
    assert f"x-headrace-rid: {engine.aborted[0]}\r\n" in engine.asked[0][0]
    event_id = engine.aborted[0][-48:-16]
    asked, got = await edge.exchange(event_id)
    assert (asked.dialect, got.delivery, got.record) == (speech.name, "disconnected", b"")
    assert got.body == (EVENT if EVENT in said and b'"b' not in said else got.body) and len(engine.asked) == 1


@each
async def test_who_hangs_up_after_the_whole_answer_has_left_nothing_running(
    standing: tuple[Edge, RawEngine], silent: Silent, speech: Speech
) -> None:
    edge, engine = standing

    async def whole(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(STREAM_HEAD + chunk(EVENT + speech.end) + END)

    engine.handler = whole
    wire = await edge.open()
    wire.ask(speech.path, speech.ask(stream=True))
    head = await wire.head()
    wire.vanish()
    _, got = await edge.exchange(head.event_id)
    assert (got.delivery, got.body) == ("complete", EVENT + speech.end)
    assert engine.aborted == []


@each
@pytest.mark.parametrize("share", [0.0, 0.5, 0.99])
async def test_who_leaves_before_the_request_is_whole_has_asked_nothing(
    standing: tuple[Edge, RawEngine], silent: Silent, speech: Speech, share: float
) -> None:
    edge, engine = standing
    raw = request(speech.path, speech.ask(stream=True))
    head_end = raw.index(b"\r\n\r\n") + 4
    before = edge.halves().keys()
    wire = await edge.open()
    wire.send(raw[: head_end + int(share * (len(raw) - head_end))])
    wire.leave()
    other = await edge.open()  # served after it: by then the gateway has seen the first one go
    other.ask("/health", method="GET")
    assert (await other.answer())[0].status == 200
    other.leave()
    assert engine.asked == [] and edge.halves().keys() == before

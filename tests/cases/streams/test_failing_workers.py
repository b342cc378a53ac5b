"""Workers that die, hang or are gone: another one before the first byte, an error in the dialect's form after it, no repeats."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass

import pytest
import pytest_asyncio

from tests.cases.edge import PATIENCE_S, Edge, eventually, running_edge
from tests.cases.engines import STREAM_HEAD, RawEngine, chunk
from tests.cases.speech import Speech, each
from tests.cases.wire import Cut

pytestmark = pytest.mark.asyncio(loop_scope="module")

EVENT = b'data: {"a":1}\n\n'
ANSWER = b'{"id":"x","choices":[]}'
JSON_ANSWER = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%b" % (len(ANSWER), ANSWER)
NUM_SESSIONS = 12


@dataclass
class Saying:
    """Writes ``said`` and breaks off."""

    said: bytes = b""

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(self.said)
        await writer.drain()


@dataclass
class Pair:
    """A gateway with two workers, one of which a test breaks."""

    edge: Edge
    good: RawEngine
    bad: RawEngine


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def standing() -> AsyncIterator[Pair]:
    good, bad = RawEngine(Saying(JSON_ANSWER)), RawEngine(Saying())
    async with AsyncExitStack() as stack:
        urls = [await stack.enter_async_context(one.serve()) for one in (good, bad)]
        yield Pair(await stack.enter_async_context(running_edge(urls, control_timeout_s=0.3)), good, bad)


@pytest_asyncio.fixture(loop_scope="module")
async def pair(standing: Pair) -> AsyncIterator[Pair]:
    yield standing
    standing.edge.hang_up()
    standing.bad.hung = False
    for one in (standing.good, standing.bad):
        one.asked.clear()
        one.aborted.clear()
    await until_all_are(standing.edge, "ready")


async def until_all_are(edge: Edge, *states: str) -> None:
    """Wait until the gateway thinks so of its workers, in any order."""
    async with asyncio.timeout(PATIENCE_S):
        while sorted((await edge.get("/ready"))["workers"].values()) != sorted(states * (2 // len(states))):  # noqa: ASYNC110
            await asyncio.sleep(0.02)


@each
async def test_a_worker_that_dies_before_the_first_byte_costs_the_agent_nothing(pair: Pair, speech: Speech) -> None:
    pair.bad.handler = Saying(b"")
    for number in range(NUM_SESSIONS):
        wire = await pair.edge.open()
        wire.ask(speech.path, speech.ask(), x_session_id=f"{speech.name}-{number}")
        head, body = await wire.answer()
        assert (head.status, body) == (200, ANSWER)
        await until_all_are(pair.edge, "ready")
    assert len(pair.good.asked) == NUM_SESSIONS and 0 < len(pair.bad.asked) < NUM_SESSIONS
    assert len({body for _, body in pair.good.asked}) == 1


@each
@pytest.mark.parametrize("said", [STREAM_HEAD, STREAM_HEAD + chunk(EVENT), STREAM_HEAD + chunk(EVENT + b'data: {"b')])
async def test_a_worker_that_dies_after_it_began_is_an_error_event_and_no_clean_end(
    pair: Pair, speech: Speech, said: bytes
) -> None:
    pair.good.handler = pair.bad.handler = Saying(said)
    wire = await pair.edge.open()
    wire.ask(speech.path, speech.ask(stream=True))
    head = await wire.head()
    with pytest.raises(Cut):
        await wire.rest()
    passed = EVENT if EVENT in said else b""
    assert head.status == 200 and wire.text.startswith(passed)
    speech.check_stream_error(last(wire.text))
    assert speech.end not in wire.text and b"[DONE]" not in wire.text
    _, got = await pair.edge.exchange(head.event_id)
    assert (got.delivery, got.body) == ("upstream_error", wire.text)
    assert len(pair.good.asked) + len(pair.bad.asked) == 1
    pair.good.handler = Saying(JSON_ANSWER)


@each
async def test_a_worker_that_dies_in_a_json_answer_is_an_error_and_nothing_is_asked_twice(pair: Pair, speech: Speech) -> None:
    pair.good.handler = pair.bad.handler = Saying(JSON_ANSWER[:-5])
    wire = await pair.edge.open()
    wire.ask(speech.path, speech.ask())
    head, body = await wire.answer()
    assert head.status == 502
    speech.check_error(head.status, head.headers, body)
    assert (await pair.edge.exchange(head.event_id))[1].delivery == "upstream_error"
    assert len(pair.good.asked) + len(pair.bad.asked) == 1
    pair.good.handler = Saying(JSON_ANSWER)


@each
async def test_the_others_go_on_while_one_worker_hangs(pair: Pair, speech: Speech) -> None:
    pair.good.handler = pair.bad.handler = Saying(JSON_ANSWER)
    pair.bad.hung = True
    calls = []
    for number in range(NUM_SESSIONS):
        wire = await pair.edge.open()
        wire.ask(speech.path, speech.ask(), x_session_id=f"{speech.name}-{number}")
        calls.append(asyncio.ensure_future(wire.answer()))
    await eventually(lambda: sum(call.done() for call in calls) == len(pair.good.asked) > 0)
    await until_all_are(pair.edge, "ready", "down")
    done, stuck = [call for call in calls if call.done()], [call for call in calls if not call.done()]
    assert all(call.result()[0].status == 200 for call in done) and pair.bad.asked == []
    for number in range(NUM_SESSIONS):
        wire = await pair.edge.open()
        wire.ask(speech.path, speech.ask(), x_session_id=f"{speech.name}-{number}")
        assert (await wire.answer())[0].status == 200
    for call in stuck:
        call.cancel()
    await asyncio.gather(*stuck, return_exceptions=True)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def deserted() -> AsyncIterator[tuple[Edge, RawEngine]]:
    """A gateway whose only worker was there and is gone."""
    engine = RawEngine(Saying())
    async with AsyncExitStack() as stack:
        serving = engine.serve()
        edge = await stack.enter_async_context(running_edge([await serving.__aenter__()]))
        await serving.__aexit__(None, None, None)
        yield edge, engine


@each
async def test_no_worker_at_all_is_503_with_a_time_to_come_back(deserted: tuple[Edge, RawEngine], speech: Speech) -> None:
    edge, _ = deserted
    for stream in (False, True):
        wire = await edge.open()
        wire.ask(speech.path, speech.ask(stream=stream))
        head, body = await wire.answer()
        assert head.status == 503 and int(head.headers["retry-after"]) > 0
        speech.check_error(head.status, head.headers, body)
        assert (await edge.exchange(head.event_id))[1].delivery == "upstream_error"
    wire.ask("/health", method="GET")
    assert (await wire.answer())[0].status == 200


def last(stream: bytes) -> bytes:
    """The last event of a stream."""
    return stream.rstrip(b"\n").rpartition(b"\n\n")[2]

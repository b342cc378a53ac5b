"""Workers that die, hang or are gone: another one before the first byte, an error in the dialect's form after it, no repeats."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Any

import pytest
import pytest_asyncio

from tests.cases.edge import PATIENCE_S, Edge, running_edge
from tests.cases.engines import STREAM_HEAD, RawEngine, chunk
from tests.cases.speech import ALL, CHAT, Speech, each
from tests.cases.wire import Cut, Head

pytestmark = pytest.mark.asyncio(loop_scope="module")

EVENT = b'data: {"a":1}\n\n'
CONTROL_TIMEOUT_S = 1.0
"""How long a hung worker keeps the gateway's poll waiting; three in a row take it down."""
ANSWER = b'{"id":"x","choices":[]}'
JSON_ANSWER = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%b" % (len(ANSWER), ANSWER)


@dataclass
class Saying:
    """Writes ``said`` and breaks off."""

    said: bytes = b""

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(self.said)
        await writer.drain()


@dataclass
class Pair:
    """A gateway with two workers, one of which a test breaks. ``good_session`` and ``bad_session`` belong to one each."""

    edge: Edge
    good: RawEngine
    bad: RawEngine
    good_session: str = ""
    bad_session: str = ""

    def both_say(self, said: bytes) -> None:
        """Let both answer so."""
        self.good.handler = self.bad.handler = Saying(said)

    def forget(self) -> None:
        """Nothing was asked."""
        self.good.asked.clear()
        self.bad.asked.clear()

    async def find_sessions(self) -> None:
        """Ask until each worker has answered well; which session it was is kept."""
        self.both_say(JSON_ANSWER)
        self.forget()
        for number in range(1000):
            num_good = len(self.good.asked)
            assert (await self.ask(CHAT, f"session-{number}"))[0].status == 200
            if len(self.good.asked) > num_good:
                self.good_session = f"session-{number}"
            else:
                self.bad_session = f"session-{number}"
            if self.good.asked and self.bad.asked:
                break
        self.forget()

    async def ask(self, speech: Speech, session: str, **more: Any) -> tuple[Head, bytes]:
        """A call in ``session``."""
        wire = await self.edge.open()
        wire.ask(speech.path, speech.ask(**more), x_session_id=session)
        return await wire.answer()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def standing() -> AsyncIterator[Pair]:
    good, bad = RawEngine(Saying(JSON_ANSWER)), RawEngine(Saying(JSON_ANSWER))
    async with AsyncExitStack() as stack:
        urls = [await stack.enter_async_context(one.serve()) for one in (good, bad)]
        yield Pair(await stack.enter_async_context(running_edge(urls, control_timeout_s=CONTROL_TIMEOUT_S)), good, bad)


@pytest_asyncio.fixture(loop_scope="module")
async def pair(standing: Pair) -> AsyncIterator[Pair]:
    """Both workers are well and have just answered, so that no failure of an earlier test counts."""
    await until_workers_are(standing.edge, "ready", "ready")
    await standing.find_sessions()
    yield standing
    standing.edge.hang_up()
    standing.bad.hung = False


async def until_workers_are(edge: Edge, *states: str) -> None:
    """Wait until the gateway thinks so of its workers, in any order."""
    async with asyncio.timeout(PATIENCE_S):
        while sorted((await edge.get("/ready"))["workers"].values()) != sorted(states):  # noqa: ASYNC110
            await asyncio.sleep(0.02)


@each
@pytest.mark.parametrize("stream", [False, True])
async def test_a_worker_that_dies_before_the_first_byte_costs_the_agent_nothing(pair: Pair, speech: Speech, stream: bool) -> None:
    pair.bad.handler = Saying(b"")
    head, body = await pair.ask(speech, pair.bad_session, stream=stream)
    assert (head.status, body) == (200, ANSWER)
    assert len(pair.good.asked) == 1
    assert len(pair.bad.asked) in (1, 2)  # one that dies on a connection kept from a poll is asked again over a new one
    assert {body for _, body in pair.bad.asked} == {pair.good.asked[0][1]}
    assert (await pair.edge.exchange(head.event_id))[1].delivery == "complete"


@each
@pytest.mark.parametrize("said", [STREAM_HEAD, STREAM_HEAD + chunk(EVENT), STREAM_HEAD + chunk(EVENT + b'data: {"b')])
async def test_a_worker_that_dies_after_it_began_is_an_error_event_and_no_clean_end(
    pair: Pair, speech: Speech, said: bytes
) -> None:
    pair.both_say(said)
    wire = await pair.edge.open()
    wire.ask(speech.path, speech.ask(stream=True))
    head = await wire.head()
    with pytest.raises(Cut):
        await wire.rest()
    assert head.status == 200 and wire.text.startswith(EVENT if EVENT in said else b"")
    speech.check_stream_error(wire.text.rstrip(b"\n").rpartition(b"\n\n")[2])
    assert speech.end not in wire.text and b"[DONE]" not in wire.text
    _, got = await pair.edge.exchange(head.event_id)
    assert (got.delivery, got.body) == ("upstream_error", wire.text)
    assert len(pair.good.asked) + len(pair.bad.asked) == 1


@each
async def test_a_worker_that_dies_in_a_json_answer_is_an_error_and_nothing_is_asked_twice(pair: Pair, speech: Speech) -> None:
    pair.both_say(JSON_ANSWER[:-5])
    head, body = await pair.ask(speech, pair.bad_session)
    assert head.status == 502
    speech.check_error(head.status, head.headers, body)
    assert (await pair.edge.exchange(head.event_id))[1].delivery == "upstream_error"
    assert len(pair.good.asked) + len(pair.bad.asked) == 1


@each
async def test_the_others_go_on_while_one_worker_hangs(pair: Pair, speech: Speech) -> None:
    pair.bad.hung = True
    stuck = await pair.edge.open()
    stuck.ask(speech.path, speech.ask(), x_session_id=pair.bad_session)
    for _ in range(5):
        head, body = await pair.ask(speech, pair.good_session)
        assert (head.status, body) == (200, ANSWER)
    assert len(pair.good.asked) == 5 and pair.bad.asked == []


async def test_a_worker_that_hangs_is_noticed_and_its_sessions_go_elsewhere(pair: Pair) -> None:
    pair.bad.hung = True
    await until_workers_are(pair.edge, "ready", "down")
    for speech in ALL:
        head, body = await pair.ask(speech, pair.bad_session)
        assert (head.status, body) == (200, ANSWER)
    assert len(pair.good.asked) == len(ALL)
    pair.bad.hung = False
    await until_workers_are(pair.edge, "ready", "ready")
    assert (await pair.ask(CHAT, pair.bad_session))[0].status == 200
    assert len(pair.bad.asked) == 1


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

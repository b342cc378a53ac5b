"""An agent that leaves stops the engine at once, whether it streamed, waited in silence, or had not been answered at all."""

import asyncio

import pytest

from tests.fakes.engine_chat import Script
from tests.gateway.sse import BODY, CHAT, eventually, open_stream


@pytest.fixture
def silent():
    """A token gate that never opens, and the event that the engine has reached it."""
    reached = asyncio.Event()

    async def gate():
        reached.set()
        await asyncio.Event().wait()

    return gate, reached


async def test_a_client_that_leaves_a_stream_ends_the_engines_work_and_is_recorded(served, silent):
    served.engine.model.token_gate, reached = silent
    async with served.client() as client, open_stream(client) as stream:
        await stream.until(b'"content":"h"')
        await asyncio.wait_for(reached.wait(), 10)
    half = await served.journal.arrived()
    assert half.delivery == "disconnected"
    assert b'"content":"h"' in half.body and b"[DONE]" not in half.body
    await eventually(lambda: served.engine.disconnects == 1 and served.engine.model.aborted)
    assert served.engine.model.aborted == [next(iter(served.journal.begun.values())).completion_id]


async def test_a_client_that_leaves_a_silent_json_call_ends_the_engines_work(served, silent):
    served.engine.model.token_gate, reached = silent
    async with served.client() as client:
        call = asyncio.ensure_future(client.post(CHAT, json={**BODY, "stream": False}))
        await asyncio.wait_for(reached.wait(), 10)
        call.cancel()
    half = await served.journal.arrived()
    assert (half.delivery, half.body) == ("disconnected", b"")
    await eventually(lambda: served.engine.disconnects == 1 and served.engine.model.aborted)


async def test_nothing_is_left_in_flight_after_a_disconnect(served, silent):
    served.engine.model.token_gate, reached = silent
    async with served.client() as client, open_stream(client):
        await asyncio.wait_for(reached.wait(), 10)
        assert served.gateway.workers[0].num_in_flight == 1
    await served.journal.arrived()
    await eventually(lambda: served.gateway.workers[0].num_in_flight == 0 and served.gateway.pool.num_active == 0)


async def test_a_client_that_leaves_while_its_end_is_held_has_still_a_complete_exchange(served):
    served.journal.gate = asyncio.Event()
    served.engine.script = Script([b'data: {"a":1}\n\n', b'event: headrace.record\ndata: {"v":1}\n\ndata: [DONE]\n\n'])
    async with served.client() as client, open_stream(client) as stream:
        await stream.until(b"\n\n")
        await served.journal.arrived()
    served.journal.gate.set()
    await eventually(lambda: served.journal.finished)
    assert served.journal.only()[1].delivery == "complete"
    assert served.engine.model.aborted == []


@pytest.mark.slow
async def test_a_client_that_stops_reading_pauses_the_engine(served):
    num_pieces, piece = 1000, b"data: " + b"x" * 65536 + b"\n\n"
    sent = 0

    class Counting(list):
        def __iter__(self):
            nonlocal sent
            for _ in range(num_pieces):
                sent += 1
                yield piece

    served.engine.script = Script(Counting())
    async with served.client("hr_quiet") as client, open_stream(client) as stream:
        await stream.until(b"\n\n")
        before = -1
        while before != sent:  # until nothing moves any more
            before = sent
            await asyncio.sleep(0.2)
        assert sent < num_pieces / 4
        total = await stream.count_rest()
    assert total == num_pieces * len(piece)

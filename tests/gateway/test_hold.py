"""True streaming up to the record; the end only once the exchange is durable; never a clean end if it is not."""

import asyncio

import httpx
import pytest

from tests.fakes.engine_chat import Script
from tests.gateway.sse import BODY, CHAT, open_stream

FIRST = b'data: {"choices":[{"delta":{"content":"a"}}]}\n\n'
RECORD = b'event: headrace.record\ndata: {"v":1}\n\n'
END = b'data: {"choices":[{"delta":{},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'


async def test_the_first_chunk_leaves_while_the_engine_is_still_busy(served):
    gate = asyncio.Event()
    served.engine.script = Script([FIRST, gate, RECORD + END])
    async with served.client() as client, open_stream(client) as stream:
        assert await stream.until(b"\n\n") == FIRST
        gate.set()
        assert await stream.rest() == FIRST + END


@pytest.mark.parametrize("cut", [1, 10, len(RECORD) - 1, len(RECORD), len(RECORD) + 5])
async def test_the_record_is_taken_out_when_it_arrives_in_two_reads(served, cut):
    gate, tail = asyncio.Event(), RECORD + END
    served.engine.script = Script([FIRST + tail[:cut], gate, tail[cut:]])
    async with served.client() as client, open_stream(client) as stream:
        assert await stream.until(b"\n\n") == FIRST
        gate.set()
        assert await stream.rest() == FIRST + END
    assert served.journal.only()[1].record == b'{"v":1}'


async def test_what_follows_the_record_is_held_until_the_journal_has_committed(served):
    served.journal.gate = asyncio.Event()
    served.engine.script = Script([FIRST, RECORD + END])
    async with served.client() as client, open_stream(client) as stream:
        await stream.until(b"\n\n")
        half = await served.journal.arrived()
        assert stream.text == FIRST
        assert half.body == FIRST + END
        read = asyncio.ensure_future(stream.rest())
        async with served.client() as other:
            assert (await other.get("/health")).status_code == 200  # the loop turned; the end is still held
        assert not read.done() and stream.text == FIRST
        served.journal.gate.set()
        assert await read == FIRST + END


async def test_a_json_answer_is_held_until_the_journal_has_committed(served):
    served.journal.gate = asyncio.Event()
    async with served.client() as client:
        call = asyncio.ensure_future(client.post(CHAT, json={**BODY, "stream": False}))
        await served.journal.arrived()
        async with served.client() as other:
            assert (await other.get("/health")).status_code == 200
        assert not call.done()
        served.journal.gate.set()
        assert (await call).status_code == 200


async def test_a_journal_that_fails_at_the_end_cuts_the_stream_after_an_error_event(served):
    served.journal.gate = asyncio.Event()
    served.engine.script = Script([FIRST, RECORD + END])
    async with served.client() as client, open_stream(client) as stream:
        await served.journal.arrived()
        served.journal.broken = True
        served.journal.gate.set()
        with pytest.raises(httpx.RemoteProtocolError):
            await stream.rest()
        assert b"journal_failed" in stream.text
        assert b"[DONE]" not in stream.text and b"finish_reason" not in stream.text


async def test_a_journal_that_fails_at_the_end_of_a_json_answer_gives_503_and_no_answer(served):
    served.journal.gate = asyncio.Event()
    async with served.client() as client:
        call = asyncio.ensure_future(client.post(CHAT, json={**BODY, "stream": False}))
        await served.journal.arrived()
        served.journal.broken = True
        served.journal.gate.set()
        answer = await call
    assert answer.status_code == 503
    assert answer.json()["error"]["code"] == "journal_failed"
    assert b"hello" not in answer.content


@pytest.mark.parametrize(("state", "code"), [("broken", "journal_failed"), ("full", "journal_full")])
async def test_a_journal_that_takes_nothing_refuses_before_the_engine_is_asked(served, state, code):
    setattr(served.journal, state, True)
    async with served.client() as client:
        answer = await client.post(CHAT, json=BODY)
    assert (answer.status_code, answer.headers["x-headrace-error"]) == (503, code)
    assert int(answer.headers["retry-after"]) > 0
    assert served.engine.calls == []
    async with served.client("hr_quiet") as client:
        assert (await client.post(CHAT, json=BODY)).status_code == 200


async def test_a_stream_without_a_record_has_its_end_held_too(served):
    served.journal.gate = asyncio.Event()
    served.engine.script = Script([FIRST, END])
    async with served.client() as client, open_stream(client) as stream:
        await served.journal.arrived()
        await stream.until(b"finish_reason")
        assert b"[DONE]" not in stream.text
        served.journal.gate.set()
        assert await stream.rest() == FIRST + END
    assert served.journal.only()[1].record == b""

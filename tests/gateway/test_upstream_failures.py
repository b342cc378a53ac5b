"""Engines that die, hang, or answer nonsense: another worker before the first byte, an error in OpenAI's form after it."""

import asyncio
import socket
from contextlib import asynccontextmanager

import httpx
import pytest

from gateway.dialects import CHAT as CHAT_DIALECT
from gateway.parsing import parse_request
from gateway.polling import WorkerPoller
from router.choose import choose
from router.workers import Health
from tests.fakes.engine import FakeEngine
from tests.fakes.engine_chat import Script
from tests.gateway.conftest import run_gateway
from tests.gateway.sse import BODY, CHAT, eventually, open_stream

FIRST = b'data: {"choices":[{"delta":{"content":"a"}}]}\n\n'


@asynccontextmanager
async def raw_server(answer: bytes):
    """A server that reads a request, writes ``answer`` and closes; counts its connections."""
    connections = []

    async def handle(reader, writer):
        connections.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(answer)
        writer.close()

    server = await asyncio.start_server(handle, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", connections


def mark_up(gateway, url):
    """Pretend that the poller found the worker at ``url`` ready."""
    worker = next(worker for worker in gateway.workers if worker.url == url)
    worker.health, worker.models = Health.READY, frozenset({"tiny"})


async def test_an_engine_lost_mid_stream_is_an_error_event_and_never_a_clean_end(served):
    served.engine.script = Script([FIRST], cut=True)
    async with served.client() as client, open_stream(client) as answer:
        with pytest.raises(httpx.RemoteProtocolError):
            await answer.rest()
        assert answer.text.startswith(FIRST)
        assert b"engine_lost" in answer.text and b"[DONE]" not in answer.text
    half = served.journal.only()[1]
    assert (half.delivery, half.body) == ("upstream_error", answer.text)
    assert half.error
    assert len(served.engine.calls) == 1


async def test_an_engine_lost_in_a_json_answer_is_502_and_nothing_is_tried_twice(run_dir):
    engine = FakeEngine()
    half_an_answer = b'HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 100\r\n\r\n{"id":'
    async with raw_server(half_an_answer) as (url, connections), run_gateway(run_dir, engine, [url]) as served:
        mark_up(served.gateway, url)
        async with served.client() as client:
            answer = await client.post(CHAT, json=BODY)
        assert (answer.status_code, answer.json()["error"]["code"]) == (502, "engine_lost")
        assert served.journal.only()[1].delivery == "upstream_error"
        assert len([one for one in connections if CHAT.encode() in one]) == 1


@pytest.mark.slow
async def test_openai_sdk_raises_when_the_engine_is_lost_mid_stream(served):
    import openai

    served.engine.script = Script([FIRST, b'data: {"choices":[{"del'], cut=True)
    async with openai.AsyncOpenAI(base_url=f"{served.url}/v1", api_key="hr_acme", max_retries=0) as client:
        stream = await client.chat.completions.create(model="tiny", messages=[{"role": "user", "content": "x"}], stream=True)
        with pytest.raises((openai.APIError, httpx.RemoteProtocolError, ValueError)):
            _ = [chunk async for chunk in stream]


def session_on(gateway, url):
    """A session id of tenant acme whose first worker is the one at ``url``."""
    for number in range(1000):
        session = gateway.namer.name("acme", "", f"s{number}", b"", parse_request(b'{"model":"tiny"}'), CHAT_DIALECT)
        if choose(session.affinity, "tiny", gateway.workers)[0].url == url:
            return session.session_id
    raise AssertionError("no session goes there")


@pytest.mark.parametrize("answer", [b"", b"garbage\r\n\r\n"])
async def test_no_byte_of_an_answer_goes_to_the_next_worker_but_nonsense_does_not(run_dir, answer):
    engine = FakeEngine()
    async with (
        engine.serve() as good,
        raw_server(answer) as (bad, connections),
        run_gateway(run_dir, engine, [good, bad]) as served,
    ):
        mark_up(served.gateway, bad)
        name = session_on(served.gateway, bad)
        async with served.client() as client:
            result = await client.post(CHAT, json=BODY, headers={"x-session-id": name})
        assert len([one for one in connections if CHAT.encode() in one]) == 1
        if answer:
            assert (result.status_code, engine.calls) == (502, [])
        else:
            assert (result.status_code, len(engine.calls)) == (200, 1)


async def test_a_kept_connection_that_the_engine_has_closed_is_replaced(served):
    async with served.client() as client:
        assert (await client.post(CHAT, json=BODY)).status_code == 200
        kept = served.gateway.pool._idle[served.gateway.origins[served.gateway.workers[0].url]]
        assert kept
        for connection in kept:
            connection._transport.get_extra_info("socket").shutdown(socket.SHUT_RDWR)  # under the pool's feet
        assert (await client.post(CHAT, json=BODY)).status_code == 200
    assert len(served.engine.calls) == 2


async def test_all_workers_down_is_503_with_retry_after_and_recorded(served):
    served.gateway.workers[0].health = Health.DOWN
    async with served.client() as client:
        answer = await client.post(CHAT, json=BODY)
    assert (answer.status_code, answer.json()["error"]["code"]) == (503, "no_worker")
    assert int(answer.headers["retry-after"]) > 0
    assert served.journal.only()[1].delivery == "upstream_error"


async def test_a_refused_connection_marks_the_worker_down(run_dir):
    with socket.create_server(("127.0.0.1", 0)) as closed:
        url = f"http://127.0.0.1:{closed.getsockname()[1]}"
    async with run_gateway(run_dir, FakeEngine(), [url]) as served:
        mark_up(served.gateway, url)
        async with served.client() as client:
            assert (await client.post(CHAT, json=BODY)).status_code == 503
        assert served.gateway.workers[0].health is Health.DOWN


@pytest.mark.parametrize(
    ("setting", "pieces"), [("first_byte_timeout_s", None), ("idle_timeout_s", [FIRST]), ("total_timeout_s", [FIRST])]
)
async def test_time_outs_abort_the_engine_and_say_which_limit_it_was(run_dir, setting, pieces):
    engine = FakeEngine()
    engine.script = Script([*(pieces or []), asyncio.Event()])
    if pieces is None:
        engine.script = None
        engine.model.unpaused.clear()
    body = {**BODY, "stream": pieces is not None}
    async with engine.serve() as url, run_gateway(run_dir, engine, [url], **{setting: 0.05}) as served:
        mark_up(served.gateway, url)
        async with served.client() as client:
            if pieces is None:
                answer = await client.post(CHAT, json=body)
                assert (answer.status_code, answer.json()["error"]["code"]) == (504, "engine_timeout")
                assert setting in answer.text
            else:
                async with open_stream(client, body) as stream:
                    with pytest.raises(httpx.RemoteProtocolError):
                        await stream.rest()
                    assert setting.encode() in stream.text
        assert served.journal.only()[1].delivery == "aborted"
        await eventually(lambda: engine.model.aborted == [served.journal.only()[0].completion_id])
        await eventually(lambda: served.gateway.workers[0].num_in_flight == 0)


async def test_a_paused_engine_keeps_calls_waiting_and_fails_none(served):
    served.engine.model.unpaused.clear()
    await WorkerPoller(served.gateway)()
    assert served.gateway.workers[0].health is Health.WAITING
    async with served.client() as client:
        calls = [asyncio.ensure_future(client.post(CHAT, json=BODY)) for _ in range(16)]
        await eventually(lambda: len(served.engine.calls) == 16)
        assert not any(call.done() for call in calls)
        served.engine.model.version = "v000001"
        served.engine.model.unpaused.set()
        answers = await asyncio.gather(*calls)
    assert [answer.status_code for answer in answers] == [200] * 16
    assert served.engine.model.aborted == []

"""Admission as an agent meets it: refusals in its dialect, waiting during a swap, leaving the queue, headers, tokens counted."""

import asyncio

import httpx
import msgspec
import pytest

from gateway.polling import WorkerPoller
from tests.fakes.dataproxy import key_row
from tests.fakes.engine import FakeEngine
from tests.gateway.conftest import KEYS, run_gateway
from tests.gateway.sse import BODY, CHAT, eventually

PLAIN = {**BODY, "stream": False}
MESSAGES = {"model": "tiny", "max_tokens": 8, "messages": [{"role": "user", "content": "hello"}]}
LIMITED = [
    key_row("hr_rated", limits={"requests_per_minute": 1, "tokens_per_minute": 1000}),
    key_row("hr_poor", limits={"budget_tokens": 1}),
    key_row("hr_unrecorded", tenant="quiet", record=False, limits={"tokens_per_minute": 1000}),
]


@pytest.fixture
async def narrow(run_dir):
    """A gateway whose engine says that it runs one call at once, and keys with limits."""
    engine = FakeEngine()
    async with engine.serve() as url, run_gateway(run_dir, engine, [url], worker_max_running=1, max_waiting=2) as served:
        served.dataproxy.keys.extend(LIMITED)
        served.gateway.keys.load(msgspec.json.encode([*KEYS, *LIMITED]))
        yield served


def gated(served):
    gate = asyncio.Event()
    served.engine.model.token_gate = gate.wait
    return gate


async def test_more_calls_than_the_workers_run_wait_and_are_all_served(narrow):
    gate = gated(narrow)
    async with narrow.client() as one, narrow.client("hr_other") as two:
        calls = [asyncio.create_task(client.post(CHAT, json=PLAIN)) for client in (one, two, one)]
        await eventually(lambda: narrow.gateway.admission.num_waiting == 2 and narrow.engine.model.running)
        assert len(narrow.engine.model.running) == 1
        full = await two.post(CHAT, json=PLAIN)
        assert (full.status_code, full.headers["x-headrace-error"]) == (429, "queue_full")
        assert int(full.headers["retry-after"]) >= 1
        gate.set()
        assert [call.status_code for call in await asyncio.gather(*calls)] == [200, 200, 200]
    assert narrow.gateway.admission.num_waiting == 0


async def test_calls_wait_through_a_swap_longer_than_their_patience_and_none_fails(run_dir):
    engine = FakeEngine()
    async with (
        engine.serve() as url,
        run_gateway(run_dir, engine, [url], worker_max_running=1, max_wait_s=0.2) as served,
        served.client() as client,
    ):
        engine.model.unpaused.clear()
        engine.is_ready = False
        await WorkerPoller(served.gateway)()
        calls = [asyncio.create_task(client.post(CHAT, json=PLAIN)) for _ in range(4)]
        await eventually(lambda: served.gateway.admission.num_waiting == 3)
        loop = asyncio.get_running_loop()
        longer = loop.time() + 0.6
        await eventually(lambda: loop.time() > longer)
        assert not any(call.done() for call in calls)
        engine.is_ready = True
        engine.model.unpaused.set()
        assert [call.status_code for call in await asyncio.gather(*calls)] == [200] * 4


async def test_an_agent_that_leaves_while_it_waits_leaves_the_queue_and_never_reaches_the_engine(narrow):
    gate = gated(narrow)
    async with narrow.client() as client:
        first = asyncio.create_task(client.post(CHAT, json=PLAIN))
        await eventually(lambda: narrow.engine.model.running)
        second = asyncio.create_task(client.post(CHAT, json=PLAIN))
        await eventually(lambda: narrow.gateway.admission.num_waiting == 1)
        second.cancel()
        await eventually(lambda: narrow.gateway.admission.num_waiting == 0)
        gate.set()
        assert (await first).status_code == 200
        assert (await client.post(CHAT, json=PLAIN)).status_code == 200
    assert len(narrow.engine.calls) == 2
    assert len(narrow.journal.begun) == 2


@pytest.mark.parametrize(
    ("path", "body", "read"),
    [
        (CHAT, PLAIN, lambda answer: answer["error"]["code"]),
        ("/v1/responses", {"model": "tiny", "input": "hello"}, lambda answer: answer["error"]["code"]),
        ("/v1/messages", MESSAGES, lambda answer: answer["error"]["type"]),
    ],
)
async def test_a_rate_is_refused_in_the_agents_dialect_with_the_time_to_come_back(narrow, path, body, read):
    async with narrow.client("hr_rated") as client:
        served = await client.post(path, json=body)
        assert served.status_code == 200
        assert served.headers["x-ratelimit-limit-requests"] == "1"
        assert served.headers["x-ratelimit-remaining-requests"] == "0"
        assert 0 < int(served.headers["x-ratelimit-remaining-tokens"]) < 1000
        refused = await client.post(path, json=body)
    assert refused.status_code == 429
    assert read(refused.json()) == ("rate_limit_error" if path == "/v1/messages" else "rate_limit_exceeded")
    assert refused.headers["x-headrace-error"] == "rate_limit_exceeded"
    assert 1 <= int(refused.headers["retry-after"]) <= 60


async def test_a_budget_is_charged_by_the_engines_record(narrow):
    async with narrow.client("hr_poor") as client:
        assert (await client.post(CHAT, json=PLAIN)).status_code == 200
        refused = await client.post(CHAT, json=PLAIN)
    assert (refused.status_code, refused.json()["error"]["code"]) == (429, "insufficient_quota")
    assert "retry-after" not in refused.headers


@pytest.mark.parametrize("stream", [True, False])
async def test_a_tenant_that_is_not_recorded_is_charged_exactly_as_well_and_sees_no_record(narrow, stream):
    async with narrow.client("hr_unrecorded") as client:
        answer = await client.post(CHAT, json={**PLAIN, "stream": stream, "max_tokens": 3})
        assert b"headrace" not in answer.content
        (call,) = narrow.engine.calls
        assert call.headers["x-headrace-record"] == "1" and not narrow.journal.begun
        again = await client.post(CHAT, json={**PLAIN, "max_tokens": 3})
    used = again.json()["usage"]["total_tokens"]
    estimated = len(call.body) // 4
    assert used != estimated
    assert int(again.headers["x-ratelimit-remaining-tokens"]) in range(1000 - used - len(call.body) // 4 - 2, 1000 - used)


async def test_what_the_engine_refuses_costs_no_tokens(narrow):
    async with narrow.client("hr_poor") as client:
        for _ in range(3):
            assert (await client.post(CHAT, json={**PLAIN, "temperature": "hot"})).status_code == 400
        assert (await client.post(CHAT, json=PLAIN)).status_code == 200


async def test_other_routes_are_not_held_by_the_queue(narrow):
    gate = gated(narrow)
    async with narrow.client() as client:
        first = asyncio.create_task(client.post(CHAT, json=PLAIN))
        await eventually(lambda: narrow.engine.model.running)
        count = {"model": "tiny", "messages": MESSAGES["messages"]}
        assert (await client.post("/v1/messages/count_tokens", json=count)).status_code == 200
        async with httpx.AsyncClient(base_url=narrow.url, timeout=60) as anybody:
            assert "headrace_gateway_waiting 0" in (await anybody.get("/metrics")).text
        gate.set()
        await first

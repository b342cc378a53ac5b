"""A worker that misbehaves among several: it is left out, its back-pressure is passed on, and bad requests are not its fault."""

from contextlib import asynccontextmanager

import pytest

from tests.fakes.engine import FakeEngine
from tests.fakes.engine_chat import Script
from tests.gateway.conftest import run_gateway
from tests.gateway.sse import BODY, CHAT

PLAIN = {**BODY, "stream": False}
HEADERS = {"x-session-id": "one"}


@asynccontextmanager
async def pair(run_dir):
    """(a gateway before two engines, the engine that session ``one`` goes to, the other one)."""
    engines = [FakeEngine(), FakeEngine()]
    async with engines[0].serve() as one, engines[1].serve() as two, run_gateway(run_dir, engines[0], [one, two]) as served:
        async with served.client() as client:
            assert (await client.post(CHAT, json=PLAIN, headers=HEADERS)).status_code == 200
        favourite, other = sorted(engines, key=lambda engine: -len(engine.calls))
        favourite.calls.clear()
        yield served, favourite, other


async def call(client, **changes):
    return await client.post(CHAT, json={**PLAIN, **changes}, headers=HEADERS)


async def test_three_failures_in_a_row_send_its_sessions_elsewhere(run_dir):
    async with pair(run_dir) as (served, favourite, other), served.client() as client:
        failed = b'{"object":"error","message":"m","type":"InternalServerError","param":null,"code":500}'
        favourite.script = Script([failed], status=500, content_type="application/json")
        assert [(await call(client)).status_code for _ in range(6)] == [500] * 3 + [200] * 3
        assert (len(favourite.calls), len(other.calls)) == (3, 3)
        assert 'headrace_gateway_worker_ejected{worker="' in (await client.get("/metrics")).text


async def test_twenty_bad_requests_leave_it_where_it_is(run_dir):
    async with pair(run_dir) as (served, favourite, other), served.client() as client:
        assert {(await call(client, temperature="hot")).status_code for _ in range(20)} == {400}
        assert (await call(client)).status_code == 200
        assert (len(favourite.calls), len(other.calls)) == (21, 0)


@pytest.mark.parametrize("status", [429, 503])
async def test_back_pressure_reaches_the_agent_and_spares_the_worker_meanwhile(run_dir, status):
    async with pair(run_dir) as (served, favourite, other), served.client() as client:
        told = b'{"error":{"message":"busy","type":"x","param":null,"code":"busy"}}'
        favourite.script = Script([told], status=status, content_type="application/json", headers={"retry-after": "7"})
        refused = await call(client)
        assert (refused.status_code, refused.headers["retry-after"], refused.content) == (status, "7", told)
        favourite.script = None
        assert (await call(client)).status_code == 200
        assert (len(favourite.calls), len(other.calls)) == (1, 1)

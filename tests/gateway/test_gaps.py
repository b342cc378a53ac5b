"""A journal that takes nothing: refused by default, served where the tenant chose so, and then the gap is told, once."""

import asyncio

import httpx
import pytest

from gateway.polling import KeyPoller, tell_gaps
from tests.fakes.dataproxy import key_row
from tests.gateway.test_hold import BODY, CHAT


@pytest.fixture
async def lenient(served):
    """The gateway, with a tenant that chose service."""
    served.dataproxy.keys.append(key_row("hr_lenient", tenant="lenient", unrecorded=True))
    await KeyPoller(served.gateway)()
    return served


@pytest.mark.parametrize(("state", "reason"), [("full", "journal_full"), ("broken", "journal_failed")])
async def test_a_tenant_that_chose_service_is_served_and_the_gap_is_told(lenient, state, reason):
    setattr(lenient.journal, state, True)
    async with lenient.client("hr_lenient") as client:
        for _ in range(3):
            answer = await client.post(CHAT, json={**BODY, "stream": False})
            assert answer.status_code == 200 and "headrace_record" not in answer.text
    async with lenient.client() as client:
        assert (await client.post(CHAT, json=BODY)).status_code == 503
    await tell_gaps(lenient.gateway)
    (gap,) = lenient.dataproxy.gaps
    assert (gap["tenant"], gap["agent"], gap["reason"], gap["num_calls"]) == ("lenient", "desk", reason, 3)
    assert 0 < gap["first_us"] <= gap["last_us"]
    assert lenient.journal.finished == {}


async def test_an_answer_whose_record_fails_at_its_end_still_goes_out(lenient):
    lenient.journal.gate = asyncio.Event()
    async with lenient.client("hr_lenient") as client:
        call = asyncio.ensure_future(client.post(CHAT, json={**BODY, "stream": False}))
        await lenient.journal.arrived()
        lenient.journal.broken = True
        lenient.journal.gate.set()
        assert (await call).status_code == 200
    await tell_gaps(lenient.gateway)
    assert [gap["num_calls"] for gap in lenient.dataproxy.gaps] == [1]


async def test_a_gap_that_nobody_took_is_told_again_under_its_own_id(lenient):
    lenient.journal.full, lenient.dataproxy.takes_gaps = True, False
    async with lenient.client("hr_lenient") as client:
        await client.post(CHAT, json=BODY)
        await tell_gaps(lenient.gateway)
        await client.post(CHAT, json=BODY)
        lenient.dataproxy.takes_gaps = True
        await tell_gaps(lenient.gateway)
        await tell_gaps(lenient.gateway)
        await tell_gaps(lenient.gateway)
    assert [gap["num_calls"] for gap in lenient.dataproxy.gaps] == [1, 1]
    assert len({gap["gap_id"] for gap in lenient.dataproxy.gaps}) == 2


async def test_readiness_and_metrics_say_that_the_journal_has_failed(lenient):
    async with httpx.AsyncClient(base_url=lenient.url, timeout=60) as client:
        assert (await client.get("/ready")).json()["journal"] == "ok"
        lenient.journal.broken = True
        ready = await client.get("/ready")
        assert ready.status_code == 503 and ready.json()["journal"] == "broken"
        async with lenient.client("hr_lenient") as agent:
            await agent.post(CHAT, json=BODY)
        metrics = (await client.get("/metrics")).text
    assert "headrace_gateway_journal_failed 1\n" in metrics
    assert "headrace_gateway_unrecorded_calls_total 1\n" in metrics

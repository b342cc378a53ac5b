"""An SDK that gives up waiting and asks again: each attempt is the SDK's own, recorded and linked, and at most one trains."""

import asyncio
import json
from typing import Any

import openai
import pytest
from sqlalchemy import select

from dataproxy.store.schema import eligibility, event
from tests.cases.edge import Edge, eventually
from tests.cases.gate import Gate
from tests.cases.speech import Speech, each
from tests.dataproxy.exchanges import write
from tests.dataproxy.proxy import Proxy
from tests.fakes.engine import FakeEngine

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def drained(edge: Edge, proxy: Proxy, event_ids: list[str]) -> dict[str, Any]:
    """The events of these exchanges, out of the gateway's journal and through the drain."""
    journal = proxy.journal()
    await write(journal, *[await edge.exchange(event_id) for event_id in sorted(event_ids)])
    journal.close()
    proxy.drain()
    return {row.event_id: row for row in proxy.rows(select(event))}


def trained(proxy: Proxy) -> list[str]:
    """The events that may train."""
    return [row.event_id for row in proxy.rows(select(eligibility)) if row.eligible]


async def test_an_sdks_time_out_and_retry_make_one_call_each(edge: Edge, engine: FakeEngine, proxy: Proxy) -> None:
    async def only_the_first_hangs() -> None:
        if len(engine.calls) == 1:
            await asyncio.Event().wait()

    engine.model.token_gate = only_the_first_hangs
    async with openai.AsyncOpenAI(base_url=f"{edge.url}/v1", api_key="hr_acme", timeout=1.0, max_retries=8) as agent:
        answer = await agent.chat.completions.create(model="tiny", messages=[{"role": "user", "content": "hello"}])
    attempts = [call.headers["x-headrace-rid"][-48:-16] for call in engine.calls]
    counts = [int(half.headers["x-stainless-retry-count"]) for half, _ in [await edge.exchange(one) for one in attempts]]
    assert counts == sorted(set(counts)) and len(attempts) > 1
    assert answer.id == engine.calls[-1].headers["x-headrace-rid"]
    await eventually(lambda: len(engine.model.aborted) == len(attempts) - 1)
    events = await drained(edge, proxy, attempts)
    assert [events[one].delivery for one in attempts] == ["disconnected"] * (len(attempts) - 1) + ["complete"]
    assert events[attempts[1]].parent_id == attempts[0] and len({one.trajectory_id for one in events.values()}) == 1
    assert trained(proxy) == [attempts[-1]]


@each
async def test_a_retry_of_a_call_that_still_runs_is_a_call_of_its_own_and_one_trains(
    edge: Edge, engine: FakeEngine, proxy: Proxy, speech: Speech
) -> None:
    gate = Gate()
    engine.model.token_gate = gate
    waiting, again = await edge.open(), await edge.open()
    body = json.dumps(speech.ask("hello")).encode()
    waiting.ask(speech.path, body)
    await gate.reached.wait()
    engine.model.token_gate = None
    again.ask(speech.path, body, x_stainless_retry_count="1")
    second, _ = await again.answer()
    assert len(engine.calls) == 2 and len(engine.model.running) == 1
    gate.open.set()
    first, _ = await waiting.answer()
    assert len(engine.calls) == 2 and engine.model.aborted == []
    events = await drained(edge, proxy, [first.event_id, second.event_id])
    assert {one.delivery for one in events.values()} == {"complete"}
    assert events[second.event_id].parent_id == first.event_id
    assert events[second.event_id].trajectory_id == events[first.event_id].trajectory_id
    assert trained(proxy) == [first.event_id]

"""The judge is a model behind our own gateway: a real one that knows nothing. What it is asked is on record, and no loop starts."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Any

import httpx
import msgspec
import pytest
from sqlalchemy import select

from dataproxy.rewards.judge import Judge
from dataproxy.store.judgements import count_judgements
from dataproxy.store.schema import eligibility, event, token_segment
from dataproxy.store.statistics import read_status
from gateway.app import App, create_gateway
from gateway.polling import KeyPoller, WorkerPoller
from gateway.settings import Settings
from tests.dataproxy.api.served import serve as serve_data_proxy
from tests.dataproxy.proxy import Proxy
from tests.dataproxy.rewards.setting import JUDGE, judged, looked, rules
from tests.engine_fixture import MODEL_NAME, RunningEngine
from tests.fakes.serving import serve

pytestmark = pytest.mark.engine

JUDGES = "internal:judge"
CLAIMS = {"x-headrace-agent": JUDGES, "x-headrace-internal": "1", "x-internal": "true", "user-agent": JUDGES}
"""What a caller may say of itself. An agent is what its key says."""


@dataclass(frozen=True)
class Edge:
    """A gateway on a real socket before a real engine, with the data proxy behind it."""

    url: str
    poll: KeyPoller

    async def say(self, key: str, messages: list[dict[str, str]], **more: Any) -> str:
        """One call of an agent; what it was answered."""
        body = {"model": MODEL_NAME, "messages": messages, "max_tokens": 4, "temperature": 1.0, "ignore_eos": True}
        headers = {"authorization": f"Bearer {key}", "x-session-id": "s", **CLAIMS}
        async with httpx.AsyncClient(base_url=self.url, timeout=120, trust_env=False) as http:
            answer = await http.post("/v1/chat/completions", json=body | more, headers=headers)
        assert answer.status_code == 200, answer.text
        return str(answer.json()["choices"][0]["message"]["content"])


@pytest.fixture
async def edge(proxy: Proxy, sglang_engine: RunningEngine) -> AsyncIterator[Edge]:
    run = proxy.data_dir / "run"
    run.mkdir(parents=True)
    async with AsyncExitStack() as stack:
        stack.enter_context(serve_data_proxy(proxy.services, run / "dataproxy.sock"))
        where = Settings(data_dir=proxy.data_dir, config_dir=proxy.files.directory, engine_urls=(sglang_engine.url,))
        gateway = create_gateway(where, proxy.journal())
        app = App(gateway)
        url = await stack.enter_async_context(serve(app, http=app.http_protocol))
        await WorkerPoller(gateway)()
        yield Edge(url, KeyPoller(gateway))


def decided(proxy: Proxy) -> list[tuple[str, str, str]]:
    """(agent, trajectory or "", reason) of every stored choice, in order."""
    same = (eligibility.c.tenant == event.c.tenant) & (eligibility.c.event_id == event.c.event_id)
    query = select(event.c.agent, event.c.trajectory_id, eligibility.c.reason).select_from(event.join(eligibility, same))
    return [tuple(row) for row in proxy.rows(query.order_by(event.c.position))]


async def test_a_judge_behind_the_gateway_is_recorded_as_internal_and_asked_once_a_turn(
    proxy: Proxy, edge: Edge, monkeypatch: pytest.MonkeyPatch
) -> None:
    agents = proxy.key("agent")
    monkeypatch.setenv("HEADRACE_JUDGE_KEY", proxy.key("agent", agent=JUDGES))
    await edge.poll()
    await edge.say(agents, [{"role": "user", "content": "before anything was switched on"}])
    proxy.drain()
    behind = {"base_url": f"{edge.url}/v1", "model": MODEL_NAME, "key_env": "HEADRACE_JUDGE_KEY"}
    rules(proxy, judge=msgspec.structs.replace(JUDGE, **behind, max_tokens=8, timeout_s=60.0))

    asked = [{"role": "user", "content": "sort this ticket"}]
    answered = await edge.say(agents, asked)
    later = [*asked, {"role": "assistant", "content": answered}, {"role": "user", "content": "thanks, that is right"}]
    await edge.say(agents, later, user=JUDGES, metadata={"agent": JUDGES})
    proxy.drain()
    assert looked(proxy) == 2
    async with httpx.AsyncClient(trust_env=False, timeout=60) as client:
        judge = Judge(proxy.services.database, proxy.clock)
        assert await judge.run_once(client) == (1, True)
        proxy.drain()
        assert looked(proxy) == 0 and await judge.run_once(client) == (0, True), "a judgement was judged"

    ours = [row for row in decided(proxy) if row[0] == "triage"]
    theirs = [row for row in decided(proxy) if row[0] != "triage"]
    assert theirs == [(JUDGES, "", "internal_call")] * JUDGE.votes
    assert [reason for _, _, reason in ours] == ["eligible"] * 3 and all(name for _, name, _ in ours)
    lengths = select(token_segment.c.num_output).where(token_segment.c.trajectory_id == "")
    sampled = [row.num_output for row in proxy.rows(lengths)]
    assert len(sampled) == JUDGE.votes and all(sampled), "what the judge said is on record, token for token"
    [(_, state, attempts)] = judged(proxy)
    assert (state, attempts) == ("abstained", 1), "it says nothing that could be read as a verdict"
    with proxy.services.database.read() as connection:
        states, num_tokens, _ = count_judgements(connection, "acme")
        status = read_status(connection, 0, "acme")
    assert states == {"abstained": 1} and num_tokens > sum(sampled)
    assert (status.events, status.not_trainable) == (3, {"internal_call": JUDGE.votes})

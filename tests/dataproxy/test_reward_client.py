"""Feedback in batches, dead letters and agents' rules through the API, as the command line asks for them."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select

from dataproxy.client import BadRequest, Denied, NotFound, RewardClient
from dataproxy.client.reward_types import AgentChange, JudgeSettings, Sources
from dataproxy.client.types import Feedback
from dataproxy.store.schema import reward
from tests.dataproxy.api.served import serve
from tests.dataproxy.exchanges import exchange, user, write
from tests.dataproxy.proxy import BROKEN_WORD, SECRET_WORD, Proxy


@pytest.fixture
def socket_path(proxy: Proxy, tmp_path: Path) -> Iterator[Path]:
    with serve(proxy.services, tmp_path / "s") as path:
        yield path


@pytest.fixture
def admin(proxy: Proxy, socket_path: Path) -> Iterator[RewardClient]:
    with RewardClient(socket_path, proxy.files.api_key("admin")) as made:
        yield made


def of(proxy: Proxy, socket_path: Path, role: str, tenant: str = "acme") -> RewardClient:
    return RewardClient(socket_path, proxy.key(role, tenant))


async def stored(proxy: Proxy, *pairs: Any) -> None:
    journal = proxy.journal()
    await write(journal, *pairs)
    journal.close()
    proxy.drain()


async def test_each_of_a_batch_is_taken_or_refused_by_itself(proxy: Proxy, socket_path: Path) -> None:
    here, coming = exchange([user("q")]), exchange([user("r")])
    await stored(proxy, here)
    with of(proxy, socket_path, "agent") as agent:
        outcomes = agent.feedback_batch(
            [
                Feedback(here[0].completion_id, 1.0, explanation=f"{SECRET_WORD} it is"),
                Feedback("no such thing", 1.0),
                Feedback(coming[0].completion_id, 0.5, choice=0, idempotency_key="k"),
                Feedback(here[0].event_id, explanation="nothing said"),
                Feedback(here[0].event_id, 1.0, explanation=BROKEN_WORD),
                Feedback(here[0].event_id, 1.0, label="x" * 70_000),
                Feedback(coming[0].completion_id, 0.5, choice=0, idempotency_key="k"),
            ]
        )
    assert [outcome.status for outcome in outcomes] == [200, 404, 202, 400, 400, 400, 202]
    codes = [outcome.error.code if outcome.error else "" for outcome in outcomes]
    assert codes == ["", "not_found", "", "invalid_request", "redaction_failed", "invalid_request", ""]
    assert outcomes[2].receipt == outcomes[6].receipt
    await stored(proxy, coming)
    rows = proxy.rows(select(reward.c.target_kind, reward.c.target_id, reward.c.value).order_by(reward.c.value))
    assert rows == [("turn", f"{coming[0].event_id}#0", 0.5), ("event", here[0].event_id, 1.0)]
    assert SECRET_WORD.encode() not in proxy.everything_at_rest()


async def test_a_batch_too_long_or_of_another_form_is_refused_whole(proxy: Proxy, socket_path: Path) -> None:
    with of(proxy, socket_path, "agent") as agent:
        with pytest.raises(BadRequest, match="at most 1,000"):
            agent.feedback_batch([Feedback("x", 1.0)] * 1001)
        with pytest.raises(BadRequest, match="list of feedback"):
            agent.feedback_batch([3])  # type: ignore[list-item]
    assert proxy.count(reward) == 0


async def test_a_dead_letter_is_listed_tried_again_and_counts_from_then_on(
    proxy: Proxy, admin: RewardClient, socket_path: Path
) -> None:
    pair = exchange([user("q")])
    with of(proxy, socket_path, "agent") as agent:
        agent.feedback(Feedback(pair[0].completion_id, 0.5, name="late"))
    proxy.clock.advance(90_000)
    proxy.drain()
    (letter,) = admin.list_dead()
    assert (letter.target_id, letter.name, letter.value, letter.tenant) == (pair[0].event_id, "late", 0.5, "acme")
    assert admin.retry_dead(letter.letter_id).status == "pending" and admin.list_dead() == []
    proxy.clock.advance(90_000)
    proxy.drain()
    (letter,) = admin.list_dead()
    await stored(proxy, pair)
    proxy.clock.advance(5)
    with of(proxy, socket_path, "admin", "other") as foreign:
        assert foreign.list_dead() == []
        with pytest.raises(NotFound):
            foreign.retry_dead(letter.letter_id)
    assert admin.retry_dead(letter.letter_id).status == "stored" and admin.list_dead() == []
    assert proxy.rows(select(reward.c.value, reward.c.received_us)) == [(0.5, proxy.clock())]
    with pytest.raises(NotFound, match="headrace feedback dead"):
        admin.retry_dead(letter.letter_id)


async def test_rules_of_agents_are_set_by_admins_of_their_tenant_and_judges_by_the_operator(
    proxy: Proxy, admin: RewardClient, socket_path: Path
) -> None:
    await stored(proxy, exchange([user("q")]), exchange([user("q")], tenant="other"))
    judge = Sources(judge=JudgeSettings("http://127.0.0.1:1/v1", "m"))
    with of(proxy, socket_path, "admin") as own:
        rule = own.set_agent(AgentChange("acme", "triage", settle_s=9, sources=Sources(tool_failure=-0.2)))
        assert (rule.settle_s, rule.default_settle_s, rule.sources.tool_failure) == (9, 2.0, -0.2)
        assert own.set_agent(AgentChange("acme", "triage", terminal="done")).sources.tool_failure == -0.2
        with pytest.raises(Denied, match="operator"):
            own.set_agent(AgentChange("acme", "triage", sources=judge))
        with pytest.raises(NotFound):
            own.set_agent(AgentChange("other", "triage", settle_s=0))
        assert [(item.tenant, item.agent) for item in own.list_agents()] == [("acme", "triage")]
    assert admin.set_agent(AgentChange("acme", "triage", sources=judge)).sources == judge
    assert [(item.tenant, item.settle_s) for item in admin.list_agents()] == [("acme", 9), ("other", None)]
    with of(proxy, socket_path, "trainer") as trainer, pytest.raises(Denied):
        trainer.set_agent(AgentChange("acme", "triage", settle_s=0))


@pytest.mark.parametrize(
    "judge",
    [
        {"base_url": "file:///etc/passwd"},
        {"base_url": "http://x/v1", "key_env": "HEADRACE_DATAPROXY_DATABASE_URL"},
        {"base_url": "http://x/v1", "votes": 0},
        {"base_url": "http://x/v1", "unknown": 1},
    ],
)
async def test_a_judge_that_must_not_be_is_refused(proxy: Proxy, admin: RewardClient, judge: dict[str, Any]) -> None:
    change = {"tenant": "acme", "agent": "triage", "sources": {"judge": {"model": "m", **judge}}}
    with pytest.raises(BadRequest, match="not what this call takes"):
        admin.set_agent(change)  # type: ignore[arg-type]

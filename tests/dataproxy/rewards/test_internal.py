"""The system's own calls, such as a judge's behind the gateway: on record and governed, and nobody's traffic."""

from pathlib import Path

import msgspec
import pytest
from sqlalchemy import select, update

from dataproxy.client import BadRequest, Denied, RewardClient
from dataproxy.client.reward_types import AgentChange, Sources
from dataproxy.client.types import NewKey
from dataproxy.errors import Refused
from dataproxy.store.agents import set_rule
from dataproxy.store.consents import ConsentBook
from dataproxy.store.dialect import insert_new
from dataproxy.store.schema import agent, eligibility, event, judgement, session, token_segment, trajectory
from dataproxy.store.statistics import read_status
from tests.dataproxy.api.served import serve
from tests.dataproxy.exchanges import exchange, said, user
from tests.dataproxy.proxy import SECRET_WORD, Proxy
from tests.dataproxy.rewards.setting import JUDGE, looked, stored

JUDGES = "internal:judge"


async def test_what_the_system_asks_is_recorded_and_redacted_and_never_trains_whatever_the_consent(proxy: Proxy) -> None:
    with proxy.services.database.read() as connection:
        book = ConsentBook.read(connection)
    assert book.may_record("acme", JUDGES) and not book.may_train("acme", JUDGES)
    proxy.consent(agent=JUDGES)
    await stored(proxy, exchange([user(f"the pass is {SECRET_WORD}")], "good", prompt=[1, 2], agent=JUDGES, session="s"))
    (kept,) = proxy.rows(select(event.c.agent, event.c.trajectory_id, event.c.session_id, event.c.delivery))
    assert tuple(kept) == (JUDGES, "", "", "complete")
    assert SECRET_WORD.encode() not in proxy.everything_at_rest() and proxy.count(token_segment) == 1
    assert [tuple(row) for row in proxy.rows(select(eligibility.c.eligible, eligibility.c.reason))] == [(False, "internal_call")]


async def test_it_is_in_no_count_of_agents_conversations_or_calls_but_for_the_decisions(proxy: Proxy) -> None:
    await stored(proxy, exchange([user("q")], prompt=[1]), exchange([user("a question")], prompt=[2], agent=JUDGES))
    with proxy.services.database.read() as connection:
        status = read_status(connection, 0, "acme")
    assert (status.events, status.trajectories, status.trainable, status.not_trainable) == (1, 1, 1, {"internal_call": 1})
    assert (proxy.count(trajectory), proxy.count(session)) == (1, 1)
    assert [row.agent for row in proxy.rows(select(agent.c.agent))] == ["triage"]


async def test_a_judges_calls_are_not_judged_even_where_a_rule_says_so(proxy: Proxy) -> None:
    with pytest.raises(Refused, match="system's own"), proxy.services.database.write() as connection:
        set_rule(connection, AgentChange("acme", JUDGES, sources=Sources(judge=JUDGE)), proxy.clock())
    packed = msgspec.json.encode(Sources(judge=JUDGE, user_correction=-1.0)).decode()
    with proxy.services.database.write() as connection:  # as an earlier release may have left it
        insert_new(connection, agent, [{"tenant": "acme", "agent": JUDGES, "created_us": 1}])
        connection.execute(update(agent).values(sources=packed, swept_position=0))
    turns = [user("rate this"), said("good"), user("No, that is wrong.")]
    await stored(proxy, exchange(turns[:1], "good", prompt=[1], agent=JUDGES), exchange(turns, prompt=[1, 7], agent=JUDGES))
    assert looked(proxy) == 2 and proxy.count(judgement) == 0


def test_only_an_operator_issues_a_key_whose_calls_are_the_systems_own(proxy: Proxy, tmp_path: Path) -> None:
    with serve(proxy.services, tmp_path / "s") as path:
        for role in ("agent", "reviewer"):
            with RewardClient(path, proxy.key(role)) as client, pytest.raises(Denied):
                client.create_key(NewKey("acme", JUDGES, "agent"))
        with RewardClient(path, proxy.key("admin")) as client:
            with pytest.raises(Denied, match="an operator issues its key"):
                client.create_key(NewKey("acme", JUDGES, "agent"))
            with pytest.raises(BadRequest, match="system's own"):
                client.set_agent(AgentChange("acme", JUDGES, settle_s=1.0))
        with RewardClient(path, proxy.files.api_key("admin")) as client:
            assert client.create_key(NewKey("acme", JUDGES, "agent")).key.startswith("hr_")

"""Reward windows under a clock that the test moves: what an agent's trajectories wait for, and what ends the wait."""

from typing import Any

import pytest
from sqlalchemy import select

from atdp.rewards import effective_reward
from dataproxy.client.reward_types import AgentChange
from dataproxy.errors import NotFound, Refused
from dataproxy.lease.explain import Explanation, explain
from dataproxy.lease.history import rewards_as_trained
from dataproxy.lease.learned import LearnedTurns, learned_turns
from dataproxy.lease.windows import Now, count_places, place_of
from dataproxy.store.agents import list_rules, set_rule
from dataproxy.store.rewards import rewards_of
from dataproxy.store.schema import event, reward
from tests.dataproxy.exchanges import exchange, record, said, user
from tests.dataproxy.lease.test_leases import ack, call, lease, stored
from tests.dataproxy.lease.test_leases import reward as give
from tests.dataproxy.proxy import Proxy


def rule(proxy: Proxy, agent: str = "triage", **changes: Any) -> None:
    """Set a rule of ``agent``."""
    with proxy.services.database.write() as connection:
        set_rule(connection, AgentChange("acme", agent, **changes), proxy.clock())


def places(proxy: Proxy) -> dict[str, int]:
    with proxy.services.database.read() as connection:
        return count_places(connection, Now(proxy.clock(), 2), "acme")


async def test_an_agent_may_settle_later_than_others(proxy: Proxy) -> None:
    (mine, _) = await stored(proxy, call(proxy, "q"), call(proxy, "q", agent="other"))
    rule(proxy, settle_s=60)
    give(proxy, mine)
    proxy.clock.advance(59)
    assert lease(proxy).samples == [] and places(proxy) == {"settling": 1, "no_reward": 1}
    proxy.clock.advance(1)
    assert len(lease(proxy).samples) == 1 and places(proxy) == {"leased": 1, "no_reward": 1}


@pytest.mark.slow
async def test_a_trajectory_waits_for_its_terminal_reward_whatever_else_comes(proxy: Proxy) -> None:
    (event_id,) = await stored(proxy, call(proxy, "q"))
    rule(proxy, terminal="resolved")
    give(proxy, event_id, 0.25, name="tone")
    proxy.clock.advance(1000)
    assert lease(proxy).samples == [] and places(proxy) == {"window_open": 1}
    give(proxy, event_id, 1.0, name="resolved")
    assert [sample.reward for sample in lease(proxy).samples] == [1.25]


async def test_a_deadline_ends_the_wait_with_what_has_come(proxy: Proxy) -> None:
    (event_id,) = await stored(proxy, call(proxy, "q"))
    rule(proxy, terminal="resolved", deadline_s=3600)
    give(proxy, event_id, 0.25, name="tone")
    proxy.clock.advance(3599)
    assert lease(proxy).samples == []
    proxy.clock.advance(1)
    assert [sample.reward for sample in lease(proxy).samples] == [0.25]


async def test_what_nobody_rewards_by_the_deadline_never_trains_and_is_never_a_silent_zero(proxy: Proxy) -> None:
    await stored(proxy, call(proxy, "q"))
    rule(proxy, deadline_s=10)
    assert places(proxy) == {"no_reward": 1}
    proxy.clock.advance(11)
    assert lease(proxy).samples == [] and proxy.count(reward) == 0 and places(proxy) == {"no_reward_by_deadline": 1}


async def test_what_nobody_rewards_by_the_deadline_gets_the_agents_value_on_record_once(proxy: Proxy) -> None:
    (event_id,) = await stored(proxy, call(proxy, "q"))
    rule(proxy, deadline_s=10, deadline_value=-0.5)
    proxy.clock.advance(11)
    assert lease(proxy, preview=True).samples == [] and proxy.count(reward) == 0
    held = lease(proxy)
    assert [sample.reward for sample in held.samples] == [-0.5]
    ack(proxy, held, version=None, outcome="returned", trained=[])
    assert len(lease(proxy).samples) == 1
    (row,) = proxy.rows(select(reward))
    assert (row.target_kind, row.target_id, row.name, row.key_id) == ("trajectory", f"tr-{event_id}", "deadline", "source:deadline")
    assert "deadline" in row.explanation


async def test_a_preview_shows_what_would_be_lent_and_lends_nothing(proxy: Proxy) -> None:
    (event_id,) = await stored(proxy, call(proxy, "q"))
    give(proxy, event_id)
    proxy.clock.advance(3)
    shown = lease(proxy, preview=True, min_trajectories=5)
    assert len(shown.samples) == 1 and shown.lease_id == "" and places(proxy) == {"ready": 1}
    assert len(lease(proxy).samples) == 1


async def test_a_rule_is_changed_in_parts_and_goes_back_to_its_default(proxy: Proxy) -> None:
    await stored(proxy, call(proxy, "q"))

    def shown() -> tuple[Any, ...]:
        with proxy.services.database.read() as connection:
            (found,) = list_rules(connection, "acme", 2.0)
        return found.settle_s, found.default_settle_s, found.terminal, found.deadline_s, found.deadline_value

    rule(proxy, settle_s=5, deadline_s=10, deadline_value=0)
    rule(proxy, terminal="done")
    assert shown() == (5, 2.0, "done", 10, 0)
    rule(proxy, settle_s=None)
    assert shown() == (None, 2.0, "done", 10, 0)
    with pytest.raises(Refused, match="deadline_s"):
        rule(proxy, deadline_s=None)
    with pytest.raises(NotFound, match="triage"), proxy.services.database.write() as connection:
        set_rule(connection, AgentChange("acme", "traige"), 1)


async def test_only_the_terminal_reward_ends_the_trajectory_of_a_session(proxy: Proxy) -> None:
    (first,) = await stored(proxy, call(proxy, "task", session="s"))
    rule(proxy, terminal="resolved")
    give(proxy, first, 0.1, name="tone")
    await stored(proxy, call(proxy, "a sub-agent's task", session="s"))
    give(proxy, first, 1.0, name="resolved")
    await stored(proxy, call(proxy, "another task", session="s"))
    assert len({row[0] for row in proxy.rows(select(event.c.trajectory_id))}) == 2
    assert [row[0] for row in proxy.rows(select(event.c.seq).order_by(event.c.event_id))] == [0, 1, 0]


async def test_a_truncated_turn_that_goes_on_all_the_same_is_marked(proxy: Proxy) -> None:
    cut = call(proxy, "a", answer="b", engine_record=record("r", [1], [[2]], finish_reason="length"))
    then = [user("a"), said("b"), user("go on")]
    now = {"started_us": proxy.clock(), "ended_us": proxy.clock()}
    joined = exchange(then, "c", engine_record=record("r", [1, 2, 3], [[4]]), **now)
    last = exchange([*then, said("c"), user("e")], engine_record=record("r", [9], [[5]], finish_reason="length"), **now)
    *_, event_id = await stored(proxy, cut, joined, last)
    give(proxy, event_id)
    proxy.clock.advance(3)
    (sample,) = lease(proxy).samples
    with proxy.services.database.read() as connection:
        found = explain(connection, Now(proxy.clock(), 2), "acme", sample.trajectory_id, sample.rewards)
    assert found == Explanation("leased", {}, [f"{cut[0].event_id}#0"])
    marks = {turn.event_id: (turn.truncated, turn.extended) for row in sample.sequences for turn in row.turns}
    assert list(marks.values()) == [(True, True), (False, True), (True, False)]


def turns_learned(proxy: Proxy, name: str, oldest_version: int) -> LearnedTurns:
    with proxy.services.database.read() as connection:
        return learned_turns(connection, "acme", [name], oldest_version, proxy.clock())[name]


async def test_a_sample_says_why_some_of_its_choices_are_context_only(proxy: Proxy) -> None:
    old = call(proxy, "a", answer="b", engine_record=record("r", [1], [[2]], version="v000000"))
    now = {"started_us": proxy.clock(), "ended_us": proxy.clock()}
    greedy = record("r", [1, 2, 3], [[4]], version="v000005", sampling={"temperature": 0.0})
    middle = exchange([user("a"), said("b"), user("c")], "d", engine_record=greedy, **now)
    newest = [user("a"), said("b"), user("c"), said("d"), user("e")]
    last = exchange(newest, engine_record=record("r", [1, 2, 3, 4, 5], [[6]], version="v000005"), **now)
    *_, event_id = await stored(proxy, old, middle, last)
    give(proxy, event_id)
    proxy.clock.advance(3)
    (sample,) = lease(proxy, version_now="v000005").samples
    assert sample.left_out == {"stale": 1, "sampling_temperature": 1}
    assert turns_learned(proxy, sample.trajectory_id, 3) == LearnedTurns(3, 1, sample.left_out)  # found again, after the step
    assert turns_learned(proxy, sample.trajectory_id, 0) == LearnedTurns(3, 2, {"sampling_temperature": 1})
    proxy.consent(training=False)
    with proxy.services.database.read() as connection:
        found = explain(connection, Now(proxy.clock(), 2), "acme", sample.trajectory_id, sample.rewards)
    assert found == Explanation("no_consent", {f"{middle[0].event_id}#0": "sampling_temperature"}, [])
    assert [turn.event_id for row in sample.sequences for turn in row.turns] == [event_id]


async def test_one_choice_of_a_call_is_rewarded_apart_from_its_siblings(proxy: Proxy) -> None:
    (event_id,) = await stored(proxy, call(proxy, "q", outputs=[[5], [6, 7]], answers=[said("x"), said("y")]))
    give(proxy, event_id, 0.5)
    give(proxy, event_id, 1.0, choice=1, name="best")
    with pytest.raises(NotFound, match="no answer number 2"):
        give(proxy, event_id, 1.0, choice=2)
    with pytest.raises(Refused, match="one answer of a call"):
        give(proxy, f"tr-{event_id}", 1.0, choice=0)
    proxy.clock.advance(3)
    (sample,) = lease(proxy).samples
    assert [(turn.choice, turn.reward) for row in sample.sequences for turn in row.turns] == [(0, 0.5), (1, 1.5)]


async def test_a_past_batch_has_the_rewards_of_its_time_however_late_others_come(proxy: Proxy) -> None:
    ids = await stored(proxy, *(call(proxy, f"q{i}") for i in range(3)))
    for i, event_id in enumerate(ids):
        give(proxy, event_id, float(i))
    proxy.clock.advance(3)
    held = lease(proxy)
    trained = {sample.trajectory_id: sample.reward for sample in held.samples}
    proxy.clock.advance(1)
    give(proxy, ids[0], -5.0)
    ack(proxy, held)
    proxy.clock.advance(1)
    first = proxy.rows(select(reward.c.reward_id).order_by(reward.c.received_us).limit(1))[0][0]
    give(proxy, ids[0], 9.0, supersedes=first)
    give(proxy, f"tr-{ids[2]}", 3.0, name="late")
    with proxy.services.database.read() as connection:
        assert rewards_as_trained(connection, "acme", held.lease_id, list(trained)) == trained
        now = rewards_of(connection, "acme", list(trained))
        assert {name: effective_reward(given) for name, given in now.items()} != trained
        assert place_of(connection, Now(proxy.clock(), 2), "acme", f"tr-{ids[0]}") == "trained"

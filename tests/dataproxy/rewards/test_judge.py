"""The next-state judge against a fake model: votes, abstention, silence, cost, bounds, and a restart in between."""

import asyncio
import threading
from typing import Any

import httpx
import msgspec
import pytest
from sqlalchemy import select
from sqlalchemy.exc import OperationalError

from dataproxy.client.reward_types import JudgeSettings
from dataproxy.lease.windows import Now, count_places
from dataproxy.rewards.judge import Judge
from dataproxy.rewards.worker import RewardWorker
from dataproxy.store.judgements import count_judgements
from dataproxy.store.schema import judgement
from tests.dataproxy.lease.test_leases import lease
from tests.dataproxy.lease.test_leases import reward as give
from tests.dataproxy.proxy import SECRET_WORD, Proxy
from tests.dataproxy.rewards.setting import JUDGE, given, judged, known, looked, rules, stored, talk, tool_turn
from tests.fakes.judge import FakeJudge

pytestmark = pytest.mark.slow


def with_judge(**changes: Any) -> JudgeSettings:
    return msgspec.structs.replace(JUDGE, **changes)


async def ask(proxy: Proxy, judge: FakeJudge) -> tuple[int, bool]:
    """Look, and ask about one batch."""
    looked(proxy)
    async with judge.client() as client:
        return await Judge(proxy.services.database, proxy.clock).run_once(client)


def in_turn(*answers: str) -> Any:
    """Says one after the other."""
    left = list(answers)
    return lambda _: left.pop(0)


async def test_a_turn_is_judged_by_what_came_next_and_the_last_waits_for_nobody(proxy: Proxy) -> None:
    await known(proxy)
    rules(proxy, judge=JUDGE)
    first, second, _ = await stored(proxy, *talk(f"the pass is {SECRET_WORD}", "thanks, next", "that is bad"))
    judge = FakeJudge(lambda turn: f'{{"verdict": "{"bad" if "bad" in turn["after"] else "good"}"}}')
    assert await ask(proxy, judge) == (2, True)
    assert given(proxy) == [
        ("event", first, "next_state", 1.0, "next_state"),
        ("event", second, "next_state", -1.0, "next_state"),
    ]
    assert len(judge.requests) == 6 and SECRET_WORD not in str(judge.requests)
    assert await ask(proxy, judge) == (0, True) and len(judge.requests) == 6


async def test_a_tool_result_is_a_next_state_too(proxy: Proxy) -> None:
    await known(proxy)
    rules(proxy, judge=JUDGE)
    first, _ = await stored(proxy, *tool_turn("42 rows"))
    judge = FakeJudge()
    await ask(proxy, judge)
    assert given(proxy) == [("event", first, "next_state", 1.0, "next_state")]
    shown = msgspec.json.decode(judge.requests[0]["messages"][1]["content"])
    assert shown == {"asked": "[user] do it", "answer": "[assistant] \n[calls] run({})", "after": "[tool] 42 rows"}


async def test_without_a_majority_the_judge_abstains_and_the_turn_is_masked(proxy: Proxy) -> None:
    await known(proxy)
    rules(proxy, judge=JUDGE)
    first, second = await stored(proxy, *talk("a", "b"))
    good, bad, unclear = ('{"verdict": "good"}', '{"verdict": "bad"}', '{"verdict": "unclear"}')
    await ask(proxy, FakeJudge(in_turn(good, bad, unclear)))
    assert judged(proxy) == [(first, "abstained", 1)] and given(proxy) == []
    give(proxy, second, 1.0)
    proxy.clock.advance(3)
    (sample,) = lease(proxy).samples
    assert [turn.event_id for row in sample.sequences for turn in row.turns] == [second]
    assert sample.left_out == {"judge_abstained": 1}


async def test_a_turn_that_somebody_rewarded_trains_though_the_judge_abstains(proxy: Proxy) -> None:
    await known(proxy)
    rules(proxy, judge=JUDGE)
    first, _ = await stored(proxy, *talk("a", "b"))
    await ask(proxy, FakeJudge(lambda _: "who knows"))
    give(proxy, first, 1.0)
    proxy.clock.advance(3)
    (sample,) = lease(proxy).samples
    assert sample.left_out == {} and sum(len(row.turns) for row in sample.sequences) == 2


async def test_a_trajectory_waits_while_a_judge_has_yet_to_speak(proxy: Proxy) -> None:
    await known(proxy)
    rules(proxy, judge=JUDGE)
    first, _ = await stored(proxy, *talk("a", "b"))
    looked(proxy)
    give(proxy, first, 1.0)
    proxy.clock.advance(3)
    with proxy.services.database.read() as connection:
        places = count_places(connection, Now(proxy.clock(), 2), "acme")
    assert lease(proxy).samples == [] and places == {"judge_waits": 1, "not_eligible": 1}
    await ask(proxy, FakeJudge())
    assert [sample.reward for sample in lease(proxy).samples] == [2.0]


@pytest.mark.parametrize("fault", [{"status": 500}, {"status": 429}, {"hang": True}])
async def test_a_judge_that_does_not_answer_is_asked_again_and_then_abstains(proxy: Proxy, fault: dict[str, Any]) -> None:
    await known(proxy)
    rules(proxy, judge=with_judge(max_attempts=2, timeout_s=0.05 if "hang" in fault else 20.0))
    first, _ = await stored(proxy, *talk("a", "b"))
    judge = FakeJudge(**fault)
    assert await ask(proxy, judge) == (1, False) and judged(proxy) == [(first, "waiting", 1)]
    proxy.restart()
    assert await ask(proxy, judge) == (1, False) and judged(proxy) == [(first, "abstained", 2)]
    assert given(proxy) == [] and await ask(proxy, judge) == (0, True)


async def test_one_vote_that_fails_is_an_abstention_among_the_others(proxy: Proxy) -> None:
    await known(proxy)
    rules(proxy, judge=JUDGE)
    first, _ = await stored(proxy, *talk("a", "b"))
    await ask(proxy, FakeJudge(in_turn('{"verdict": "bad"}', "?", '{"verdict": "bad"}')))
    assert given(proxy) == [("event", first, "next_state", -1.0, "next_state")]
    assert proxy.rows(select(judgement.c.votes)) in ([("[-1.0,null,-1.0]",)], [("[-1.0,-1.0,null]",)], [("[null,-1.0,-1.0]",)])


async def test_no_more_requests_are_out_at_once_than_the_agent_allows_and_each_costs(proxy: Proxy) -> None:
    await known(proxy)
    rules(proxy, judge=with_judge(max_concurrency=2, votes=5))
    await stored(proxy, *talk("a", "b", "c", "d"))
    judge = FakeJudge()
    await ask(proxy, judge)
    assert len(judge.requests) == 15 and judge.most_at_once == 2
    with proxy.services.database.read() as connection:
        counts, num_tokens, usd = count_judgements(connection, "acme")
    assert counts == {"rewarded": 3} and num_tokens == 15 * 110
    assert usd == pytest.approx(15 * (100 * 2.0 + 10 * 10.0) / 1e6)


async def test_a_kill_between_asking_and_storing_rewards_once(proxy: Proxy, monkeypatch: pytest.MonkeyPatch) -> None:
    await known(proxy)
    rules(proxy, judge=JUDGE)
    first, _ = await stored(proxy, *talk("a", "b"))

    def killed(*_: object) -> None:
        raise RuntimeError("killed")

    with monkeypatch.context() as patch, pytest.raises(ExceptionGroup):
        patch.setattr("dataproxy.rewards.judge.insert_reward", killed)
        await ask(proxy, FakeJudge())
    assert judged(proxy) == [(first, "waiting", 0)] and given(proxy) == []
    proxy.restart()
    await ask(proxy, FakeJudge())
    assert given(proxy) == [("event", first, "next_state", 1.0, "next_state")]


async def test_what_waits_when_the_judge_is_switched_off_is_dropped_and_masks_nothing(proxy: Proxy) -> None:
    await known(proxy)
    rules(proxy, judge=JUDGE)
    first, second = await stored(proxy, *talk("a", "b"))
    looked(proxy)
    rules(proxy)
    judge = FakeJudge()
    await ask(proxy, judge)
    assert judged(proxy) == [(first, "dropped", 1)] and judge.requests == []
    give(proxy, second, 1.0)
    proxy.clock.advance(3)
    assert lease(proxy).samples[0].left_out == {}


async def test_the_key_comes_from_the_environment_and_is_stored_nowhere(proxy: Proxy, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADRACE_JUDGE_KEY", "hr_very_secret")
    await known(proxy)
    rules(proxy, judge=with_judge(key_env="HEADRACE_JUDGE_KEY", votes=1))
    await stored(proxy, *talk("a", "b"))
    judge = FakeJudge()
    await ask(proxy, judge)
    assert judge.keys == ["Bearer hr_very_secret"] and b"hr_very_secret" not in proxy.everything_at_rest()


async def test_a_store_that_refuses_a_verdict_is_tried_again(proxy: Proxy, monkeypatch: pytest.MonkeyPatch) -> None:
    await known(proxy)
    rules(proxy, judge=JUDGE)
    first, _ = await stored(proxy, *talk("a", "b"))

    def full(*_: object) -> None:
        raise OperationalError("INSERT", None, Exception("disk full"))

    worker, judge = RewardWorker(proxy.services.database, proxy.clock), FakeJudge()
    async with judge.client() as client:
        with monkeypatch.context() as patch:
            patch.setattr("dataproxy.rewards.judge.insert_reward", full)
            assert await worker._round(client) == (False, True)
        assert judged(proxy) == [(first, "waiting", 0)] and given(proxy) == []
        assert await worker._round(client) == (True, True)
    assert judged(proxy) == [(first, "rewarded", 1)] and len(given(proxy)) == 1


async def test_the_worker_stops_at_once_though_a_judge_hangs(proxy: Proxy, monkeypatch: pytest.MonkeyPatch) -> None:
    await known(proxy)
    rules(proxy, judge=with_judge(timeout_s=600.0))
    first, _ = await stored(proxy, *talk("a", "b"))
    judge, stop = FakeJudge(hang=True), threading.Event()
    transport = httpx.MockTransport(judge._answer)
    made = httpx.AsyncClient
    monkeypatch.setattr("dataproxy.rewards.worker.httpx.AsyncClient", lambda **_: made(transport=transport))
    thread = threading.Thread(target=RewardWorker(proxy.services.database, proxy.clock).run, args=(stop,))
    thread.start()
    await asyncio.to_thread(judge.asked.wait)
    stop.set()
    await asyncio.to_thread(thread.join)
    assert judged(proxy) == [(first, "waiting", 0)]

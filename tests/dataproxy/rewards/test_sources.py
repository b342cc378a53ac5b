"""Built-in sources over stored conversations: what they reward, once, from when they are switched on."""

import pytest

from atdp.rewards import effective_reward
from dataproxy.store.rewards import rewards_of
from dataproxy.store.schema import reward
from tests.dataproxy.exchanges import exchange, user
from tests.dataproxy.proxy import Proxy
from tests.dataproxy.rewards.setting import given, judged, known, looked, rules, stored, talk, tool_turn

pytestmark = pytest.mark.slow


async def test_every_source_is_off_until_it_is_switched_on_and_looks_at_what_comes_then(proxy: Proxy) -> None:
    await stored(proxy, *talk("a", "no, that is wrong"))
    assert looked(proxy) == 0
    rules(proxy, user_correction=-1.0)
    assert looked(proxy) == 0 and proxy.count(reward) == 0
    first, _ = await stored(proxy, *talk("b", "no, that is wrong"))
    assert looked(proxy) == 2 and given(proxy) == [("event", first, "user_correction", -1.0, "user")]
    rules(proxy)
    await stored(proxy, *talk("c", "no, that is wrong"))
    assert looked(proxy) == 0 and proxy.count(reward) == 1


async def test_a_correction_rewards_the_turn_before_it_and_what_goes_on_does_not(proxy: Proxy) -> None:
    await known(proxy)
    rules(proxy, user_correction=-0.5)
    _, second, _ = await stored(proxy, *talk("a", "thanks, and now b", "that's not it"))
    looked(proxy)
    assert given(proxy) == [("event", second, "user_correction", -0.5, "user")]


@pytest.mark.parametrize(
    ("result", "mark", "fails"),
    [("Traceback (most recent call last):\n  x", {}, True), ("fine", {"is_error": True}, True), ("fine", {}, False)],
)
async def test_a_failed_tool_call_rewards_the_turn_that_made_it(
    proxy: Proxy, result: str, mark: dict[str, bool], fails: bool
) -> None:
    await known(proxy)
    rules(proxy, tool_failure=-0.25)
    first, _ = await stored(proxy, *tool_turn(result, **mark))
    looked(proxy)
    assert given(proxy) == ([("event", first, "tool_failure", -0.25, "environment")] if fails else [])


async def test_the_last_test_run_of_a_trajectory_counts(proxy: Proxy) -> None:
    await known(proxy)
    rules(proxy, tests=["run_tests"], test_weight=2.0)
    first, _ = await stored(proxy, *tool_turn("1 failed, 1 passed in 1s", "run_tests"))
    await stored(proxy, *tool_turn("9 passed in 1s", "other_tool"))
    looked(proxy)
    proxy.clock.advance(1)
    call = {"id": "c9", "type": "function", "function": {"name": "run_tests", "arguments": "{}"}}
    asked = {"role": "assistant", "content": None, "tool_calls": [call]}
    again = [user("again"), asked, {"role": "tool", "tool_call_id": "c9", "content": "2 passed in 1s"}]
    await stored(proxy, exchange(again, "ok", session="s", started_us=3_000_000))
    looked(proxy)
    trajectory_id = f"tr-{first}"
    expected = [("trajectory", trajectory_id, "tests", 1.0, "test"), ("trajectory", trajectory_id, "tests", 2.0, "test")]
    assert given(proxy) == expected
    with proxy.services.database.read() as connection:
        assert effective_reward(rewards_of(connection, "acme", [trajectory_id])[trajectory_id]) == 2.0


async def test_a_retry_of_a_call_says_nothing_of_the_first_attempt(proxy: Proxy) -> None:
    await known(proxy)
    rules(proxy, user_correction=-1.0, judge={"base_url": "http://x/v1", "model": "m"})
    messages = [user("no, that is wrong")]
    await stored(proxy, exchange(messages), exchange(messages, headers={"x-stainless-retry-count": "1"}, started_us=2_000_000))
    assert looked(proxy) == 2 and proxy.count(reward) == 0 and judged(proxy) == []


async def test_looking_again_after_a_kill_gives_nothing_twice(proxy: Proxy, monkeypatch: pytest.MonkeyPatch) -> None:
    await known(proxy)
    rules(proxy, user_correction=-1.0)
    await stored(proxy, *talk("a", "no, that is wrong"))

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr("dataproxy.rewards.sources.move_on", killed)
        looked(proxy)
    assert proxy.count(reward) == 0
    proxy.restart()
    looked(proxy)
    looked(proxy)
    assert proxy.count(reward) == 1


async def test_another_agents_and_tenants_turns_are_their_own(proxy: Proxy) -> None:
    proxy.consent("other")
    await known(proxy)
    rules(proxy, user_correction=-1.0)
    wrong = "no, that is wrong"
    pairs = [exchange([user("a")], "x", tenant="other"), exchange([user("a")], "x", agent="other")]
    await stored(proxy, *pairs)
    for where in ({"tenant": "other"}, {"agent": "other"}):
        history = [user("a"), {"role": "assistant", "content": "x"}, user(wrong)]
        await stored(proxy, exchange(history, started_us=2_000_000, **where))
    assert looked(proxy) == 0 and proxy.count(reward) == 0

from atdp.rewards import Reward, effective_reward


def reward(
    reward_id: str, value: float, at: int, *, name: str = "resolved", target: str = "e1", supersedes: str | None = None
) -> Reward:
    return Reward(
        reward_id=reward_id,
        tenant="acme",
        target_kind="event",
        target_id=target,
        name=name,
        value=value,
        source="user",
        received_us=at,
        supersedes=supersedes,
    )


def test_no_reward_is_none_and_never_zero() -> None:
    assert effective_reward([]) is None


def test_the_latest_of_one_name_and_target_counts_whatever_the_order_of_arrival_in_the_list() -> None:
    rewards = [reward("b", 0.25, 20), reward("a", 1.0, 10)]
    assert effective_reward(rewards) == 0.25


def test_names_and_turns_add_up() -> None:
    rewards = [reward("a", 1.0, 10), reward("b", 0.5, 11, name="tone"), reward("c", 0.25, 12, target="e2")]
    assert effective_reward(rewards) == 1.75


def test_a_past_batch_can_be_rebuilt_as_of_its_time() -> None:
    rewards = [reward("a", 1.0, 10), reward("b", 0.0, 20)]
    assert effective_reward(rewards, as_of_us=15) == 1.0
    assert effective_reward(rewards, as_of_us=9) is None
    assert effective_reward(rewards, as_of_us=20) == 0.0


def test_a_superseded_reward_has_no_effect_even_under_another_name() -> None:
    rewards = [reward("a", 1.0, 10), reward("b", 0.5, 20, name="quality", supersedes="a")]
    assert effective_reward(rewards) == 0.5
    assert effective_reward(rewards, as_of_us=19) == 1.0

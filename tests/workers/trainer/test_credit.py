"""Which rewards a turn answers for, worked out by hand."""

import msgspec
import pytest

from atdp.rewards import Reward, TargetKind
from atdp.samples import TokenSequence, TrainSample, TurnSpan
from tests.workers.trainer.micro import sample, sequence
from workers.trainer.credit import CreditRule, PerTurn, returns, score
from workers.trainer.rows import build_rows, credited_masks


def reward(target: str, value: float, kind: TargetKind = "event") -> Reward:
    return Reward(f"r-{target}", "acme", kind, target, "score", value, "user", 1)


def three_turns(rewards: dict[str, float], end: float | None = None) -> TrainSample:
    """Turns e1, e2, e3 of two tokens each, the tokens 2-3, 5-6 and 8-9."""
    turns = [TurnSpan(f"e{i}", 3 * i - 1, 3 * i + 1) for i in (1, 2, 3)]
    chain = sequence(range(10, 20), [2, 3, 5, 6, 8, 9], turns=turns)
    told = [reward(target, value) for target, value in rewards.items()]
    told += [] if end is None else [reward("s", end, "session")]
    made = sample("t", [chain], sum(rewards.values()) + (end or 0.0))
    return TrainSample(made.trajectory_id, made.tenant, made.agent, "s", 1.0, made.reward, told, made.sequences)


def found(item: TrainSample, rule: CreditRule, discount: float) -> dict[str, float]:
    return {event: value for (event, _), value in (returns(item, rule, discount).by_turn or {}).items()}


def test_a_trajectory_as_one_action() -> None:
    values = returns(three_turns({"e1": 1.0}, 2.0), "trajectory", 0.5)
    assert values == PerTurn(3.0) and score(values) == 3.0


def test_a_turn_answers_for_itself_and_what_follows() -> None:
    assert found(three_turns({"e1": 1.0, "e3": 4.0}, 100.0), "turns", 0.5) == {"e1": 2.0, "e2": 2.0, "e3": 4.0}


def test_the_end_is_spread_back_by_the_discount() -> None:
    assert found(three_turns({"e1": 1.0}, 7.0), "terminal", 0.5) == {"e1": 2.0, "e2": 4.0, "e3": 8.0}


def test_both_add_up_and_a_reward_of_a_turn_is_not_also_one_of_the_end() -> None:
    assert found(three_turns({"e2": 3.0}, 8.0), "both", 0.5) == {"e1": 1.5 + 2.0, "e2": 3.0 + 4.0, "e3": 8.0}


def test_a_reward_for_a_call_that_is_not_trained_on_counts_at_the_end() -> None:
    assert found(three_turns({"e9": 8.0}), "both", 0.5) == {"e1": 2.0, "e2": 4.0, "e3": 8.0}


def test_a_turn_that_nothing_rewards_is_not_trained_on() -> None:
    item = three_turns({"e1": 1.0})
    values = returns(item, "turns", 1.0)
    assert values.by_turn == {("e1", 0): 1.0}
    (mask,) = credited_masks(item, values)
    assert mask.nonzero()[0].tolist() == [2, 3]
    (row,) = build_rows([item], [values], 0)
    assert row.advantages[row.trained].tolist() == [1.0, 1.0] and row.weight == pytest.approx(0.5)


def test_turns_have_their_own_advantages_in_a_row() -> None:
    item = three_turns({"e1": 1.0, "e2": 2.0, "e3": 3.0})
    (row,) = build_rows([item], [returns(item, "turns", 1.0)], 0)
    assert row.advantages[row.trained].tolist() == [6.0, 6.0, 5.0, 5.0, 3.0, 3.0]


def branched(told: list[Reward], *chains: TokenSequence) -> TrainSample:
    made = sample("t", chains, sum(item.value for item in told))
    return msgspec.structs.replace(made, rewards=told)


def test_a_shared_turn_answers_for_both_branches_and_no_branch_for_the_other() -> None:
    left = sequence([1, 2, 3, 4, 5, 6], [2, 3, 5], turns=[TurnSpan("e1", 2, 4), TurnSpan("e2", 5, 6)])
    right = sequence([1, 2, 3, 4, 7, 8], [5], turns=[TurnSpan("e3", 5, 6)])
    values = returns(branched([reward("e2", 1.0), reward("e3", 10.0)], left, right), "turns", 0.5).by_turn
    assert values == {("e1", 0): 0.5 + 5.0, ("e2", 0): 1.0, ("e3", 0): 10.0}


def test_choices_share_the_reward_of_their_call_once_and_have_their_own() -> None:
    left = sequence([1, 2, 3, 4], [1, 3], turns=[TurnSpan("e1", 1, 2), TurnSpan("e2", 3, 4)])
    right = sequence([1, 2, 3, 5], [3], turns=[TurnSpan("e2", 3, 4, choice=1)])
    told = [reward("e2", 2.0), reward("e2#1", 5.0, "turn")]
    values = returns(branched(told, left, right), "turns", 1.0).by_turn
    assert values == {("e1", 0): 7.0, ("e2", 0): 2.0, ("e2", 1): 7.0}
    assert returns(branched([*told, reward("e9#0", 1.0, "turn")], left, right), "both", 1.0).by_turn == {
        ("e1", 0): 8.0, ("e2", 0): 3.0, ("e2", 1): 8.0,
    }  # fmt: skip


def test_a_turn_of_another_branch_is_no_step_on_the_way() -> None:
    left = sequence([1, 2, 3, 4, 5, 6], [2, 3, 5], turns=[TurnSpan("e1", 2, 4), TurnSpan("e2", 5, 6)])
    right = sequence([1, 2, 3, 4, 7, 8, 9, 10], [7], turns=[TurnSpan("e3", 7, 8)])
    values = returns(branched([reward("e3", 8.0)], left, right), "turns", 0.5).by_turn
    assert values == {("e1", 0): 4.0, ("e3", 0): 8.0}

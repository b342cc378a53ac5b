"""Who is compared with whom, and that nobody is compared with itself."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from atdp.samples import TrainSample
from tests.workers.trainer.micro import sample, sequence
from workers.trainer.advantage import AgentBaseline
from workers.trainer.comparison import Comparison, Contender, Estimator, among_siblings, apply, compare, contender, group_of
from workers.trainer.credit import PerTurn

ESTIMATORS: list[Estimator] = ["baseline", "group", "rloo", "reinforce++"]


def contend(score: float, group: str = "g", estimator: Estimator = "group", agent: str = "acme/a") -> Contender:
    return Contender(agent, ("acme", "a", group.encode()), score, estimator)


def values(contenders: list[Contender]) -> list[float]:
    comparisons, _ = compare(contenders, {}, 0.5, 0.05)
    return [comparison.of(one.score) for comparison, one in zip(comparisons, contenders, strict=True)]


def test_a_group_by_hand() -> None:
    # rewards 1, 0, 0, 1: mean 0.5, deviation 0.5
    assert values([contend(score) for score in (1.0, 0.0, 0.0, 1.0)]) == pytest.approx([1.0, -1.0, -1.0, 1.0])


def test_leave_one_out_by_hand() -> None:
    assert values([contend(score, estimator="rloo") for score in (3.0, 0.0, 1.0)]) == pytest.approx([2.5, -2.0, -0.5])


def test_groups_do_not_see_each_other_and_the_batch_sees_them_all() -> None:
    scores = [(1.0, "a"), (0.0, "a"), (5.0, "b"), (6.0, "b")]
    assert values([contend(*item) for item in scores]) == pytest.approx([1.0, -1.0, -1.0, 1.0])
    whole = values([contend(*item, estimator="reinforce++") for item in scores])
    assert whole == pytest.approx([-2 / 6.5**0.5, -3 / 6.5**0.5, 2 / 6.5**0.5, 3 / 6.5**0.5])


def test_one_alone_in_its_group_takes_the_running_baseline() -> None:
    state = {"acme/a": AgentBaseline(weight=4.0, mean=0.25, square_weight=4.0, mean_square=1.0)}
    for estimator in ESTIMATORS:
        (comparison,), after = compare([contend(1.0, estimator=estimator)], state, 0.5, 0.05)
        assert comparison.baseline == 0.25 and comparison.of(1.0) > 0
        assert after["acme/a"].weight == 3.0


def test_agents_with_different_estimators_share_nothing_but_the_batch() -> None:
    mixed = [contend(1.0, estimator="rloo"), contend(0.0, estimator="rloo"), contend(9.0, agent="acme/b", estimator="baseline")]
    assert values(mixed) == pytest.approx([1.0, -1.0, 0.0])


def test_equal_rewards_teach_nothing_and_are_not_blown_up() -> None:
    assert values([contend(1.0) for _ in range(3)]) == [0.0] * 3
    assert max(abs(value) for value in values([contend(score) for score in (1.0, 1.0, 1.0, 1.001)])) < 0.02


scores = st.lists(st.tuples(st.floats(-5, 5), st.sampled_from("ab"), st.sampled_from(ESTIMATORS)), min_size=2, max_size=8)


@given(scores, st.floats(-5, 5), st.data())
def test_a_baseline_never_includes_the_score_it_is_subtracted_from(
    items: list[tuple[float, str, Estimator]], other: float, data: st.DataObject
) -> None:
    place = data.draw(st.integers(0, len(items) - 1))
    before = [contend(*item) for item in items]
    after = [contend(other, *item[1:]) if index == place else contend(*item) for index, item in enumerate(items)]
    left, right = (compare(contenders, {}, 0.5, 0.05)[0][place].baseline for contenders in (before, after))
    assert left == pytest.approx(right, abs=1e-9)


def test_a_group_is_one_agents_trajectories_from_one_prompt() -> None:
    def told(ids: list[int], agent: str = "triage") -> TrainSample:
        return msgspec.structs.replace(sample("x", [sequence(ids, [3, 4])]), agent=agent)

    same = told([1, 2, 3, 8, 9])
    assert group_of(same) == group_of(told([1, 2, 3, 5, 6])) != group_of(told([1, 2, 4, 8, 9]))
    assert group_of(same) != group_of(told([1, 2, 3, 8, 9], agent="other"))


def test_turns_are_compared_with_what_the_others_earned() -> None:
    turns = PerTurn(None, {("e1", 0): 1.0, ("e2", 0): 3.0})
    assert contender(sample("x", [sequence([1, 2], [1])]), turns, "rloo").score == 2.0
    assert apply(Comparison(1.0, 2.0), turns).by_turn == {("e1", 0): 0.0, ("e2", 0): 1.0}
    assert apply(Comparison(None, 2.0), PerTurn(4.0)).default == 0.0


def test_choices_of_one_call_are_a_group_of_their_own() -> None:
    values = PerTurn(None, {("e1", 0): 1.0, ("e1", 1): 0.0, ("e1", 2): 0.0, ("e2", 0): 5.0})
    before = PerTurn(None, dict.fromkeys(values.by_turn or {}, 9.0))
    rloo = among_siblings(before, values, contend(1.5, estimator="rloo"), 0.05).by_turn
    assert rloo == {("e1", 0): 1.0, ("e1", 1): -0.5, ("e1", 2): -0.5, ("e2", 0): 9.0}
    grouped = among_siblings(before, values, contend(1.5, estimator="group"), 0.05).by_turn or {}
    assert [grouped["e1", choice] for choice in range(3)] == pytest.approx([2**0.5, -(0.5**0.5), -(0.5**0.5)])
    assert among_siblings(before, values, contend(1.5, estimator="baseline"), 0.05) == before


def test_sessions_that_their_caller_named_a_group_are_compared_whatever_they_began_with() -> None:
    def attempt(first: int, reward: float, group: str) -> TrainSample:
        made = sample(f"{group}-{first}", [sequence([first, 2, 3, 8, 9], [3, 4])], reward=reward)
        return msgspec.structs.replace(made, group=group)

    attempts = [attempt(1, 3.0, "task-17"), attempt(2, 0.0, "task-17"), attempt(3, 1.0, "task-17"), attempt(1, 9.0, "task-18")]
    for estimator, expected in {
        "rloo": [3.0 - 0.5, 0.0 - 2.0, 1.0 - 1.5],  # less the mean of the others
        # mean 4/3, deviation √(14/9) = 1.2472
        "group": [(3 - 4 / 3) / (14 / 9) ** 0.5, (0 - 4 / 3) / (14 / 9) ** 0.5, (1 - 4 / 3) / (14 / 9) ** 0.5],
    }.items():
        contenders = [contender(one, PerTurn(one.reward, None), estimator) for one in attempts]  # type: ignore[arg-type]
        state = {contenders[0].agent: AgentBaseline(weight=4.0, mean=8.5, square_weight=4.0, mean_square=0.25)}
        comparisons, _ = compare(contenders, state, 0.5, 0.05)
        found = [comparison.of(one.score) for comparison, one in zip(comparisons, contenders, strict=True)]
        assert found[:3] == pytest.approx(expected)
        # alone in its group: 2 of weight left at 8.5, and the other three of the batch: (17 + 4) / 5
        assert comparisons[3].baseline == pytest.approx(4.2)


def test_a_groups_name_is_no_prompt() -> None:
    made = sample("x", [sequence([1, 2, 3, 8, 9], [3, 4])])
    named = msgspec.structs.replace(made, group=made.sequences[0].token_ids[:12].decode("latin-1"))
    assert group_of(named) != group_of(made)

"""The running baseline: by hand, and its one promise by property."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workers.trainer.advantage import AgentBaseline, centre

rewards = st.lists(st.floats(-5, 5), min_size=2, max_size=12)
states = st.builds(AgentBaseline, st.floats(0, 50), st.floats(-3, 3), st.floats(0, 50), st.floats(0, 9))


def test_a_first_batch_is_centred_by_leave_one_out() -> None:
    centred = centre([1.0, 0.0, 0.0, 1.0], AgentBaseline(), decay=0.5, scale_floor=0.1)
    assert centred.baselines == pytest.approx([1 / 3, 2 / 3, 2 / 3, 1 / 3])
    assert centred.scale == pytest.approx(2 / 3) and centred.state == AgentBaseline(4.0, 0.5, 4.0, pytest.approx(4 / 9))


def test_earlier_batches_count_with_their_decayed_weight() -> None:
    centred = centre([1.0], AgentBaseline(weight=8.0, mean=0.25, square_weight=8.0, mean_square=0.5), decay=0.5, scale_floor=0.1)
    assert centred.baselines == [0.25]
    assert centred.state.weight == 5.0 and centred.state.mean == pytest.approx((4 * 0.25 + 1.0) / 5)
    assert centred.scale == pytest.approx(math.sqrt((4 * 0.5 + 0.75**2) / 5))


def test_a_first_reward_alone_teaches_the_baseline_only() -> None:
    centred = centre([3.0], AgentBaseline(), 0.5, 0.1)
    assert centred.baselines == [None] and centred.state.mean == 3.0 and centred.state.square_weight == 0.0


@given(rewards, states, st.floats(-5, 5), st.data())
def test_a_baseline_never_includes_the_reward_it_is_subtracted_from(
    values: list[float], state: AgentBaseline, other: float, data: st.DataObject
) -> None:
    place = data.draw(st.integers(0, len(values) - 1))
    changed = [*values[:place], other, *values[place + 1 :]]
    before, after = (centre(v, state, 0.7, 0.1).baselines[place] for v in (values, changed))
    assert before == pytest.approx(after, abs=1e-9)


@given(rewards, states)
def test_scale_and_state_stay_finite_and_the_mean_inside_what_was_seen(values: list[float], state: AgentBaseline) -> None:
    centred = centre(values, state, 0.7, 0.1)
    assert math.isfinite(centred.scale) and centred.scale >= 0.1
    seen = [*values, state.mean] if state.weight else values
    assert min(seen) - 1e-9 <= centred.state.mean <= max(seen) + 1e-9

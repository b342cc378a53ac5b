"""What of a trajectory is trained on, and with what weight."""

import numpy as np
import pytest

from atdp.samples import TurnSpan
from tests.workers.trainer.micro import sample, sequence
from workers.trainer.credit import PerTurn
from workers.trainer.rows import build_rows, unique_masks


def test_each_trajectory_is_one_gradient_unit_however_many_tokens_and_sequences() -> None:
    long = sample("long", [sequence(range(10, 18), [4, 5, 6, 7])])
    forked = sample("forked", [sequence([1, 2, 3], [2]), sequence([1, 5, 6, 7], [2, 3])])
    rows = build_rows([long, forked], [PerTurn(1.0), PerTurn(-2.0)], head_index=0)
    shares = [row.weight * int(row.trained.sum()) for row in rows]
    assert shares == pytest.approx([1 / 2, 1 / 6, 1 / 3])
    assert [row.advantages[0] for row in rows] == [1.0, -2.0, -2.0]


def test_overwritten_tokens_and_the_first_token_are_not_trained() -> None:
    (mask,) = unique_masks(sample("a", [sequence([1, 2, 3, 4], [0, 1, 2, 3], altered=[2])]))
    assert mask.tolist() == [False, True, False, True]


def test_a_call_that_two_leaves_share_trains_once_and_each_choice_of_a_call_trains() -> None:
    shared, other = TurnSpan("e1", 2, 4), TurnSpan("e1", 2, 4, choice=1)
    left = sequence([1, 2, 3, 4], [2, 3], turns=[shared])
    right = sequence([1, 2, 3, 4, 5, 6], [2, 3, 5], turns=[shared, TurnSpan("e2", 5, 6)])
    first, second = unique_masks(sample("a", [left, right]))
    assert first.sum() == 2 and np.flatnonzero(second).tolist() == [5]
    first, second = unique_masks(sample("b", [left, sequence([1, 2, 8, 9], [2, 3], turns=[other])]))
    assert first.sum() == 2 and second.sum() == 2


def test_rows_end_at_their_last_trained_token() -> None:
    (row,) = build_rows([sample("a", [sequence([1, 2, 3, 4, 5, 6], [2, 3])])], [PerTurn(1.0)], head_index=0)
    assert row.token_ids.tolist() == [1, 2, 3, 4] and row.trained.tolist() == [False, False, True, True]


def test_engine_and_trainer_are_compared_only_on_the_heads_own_tokens_with_an_unchanged_context() -> None:
    (row,) = build_rows([sample("a", [sequence([1, 2, 3, 4, 5], [1, 2, 4], versions=[6, 7, 7])])], [PerTurn(1.0)], head_index=7)
    assert np.flatnonzero(row.comparable).tolist() == [2, 4]
    redacted = sequence([1, 2, 3, 4, 5], [1, 2, 4], versions=7, altered=[3])
    (row,) = build_rows([sample("a", [redacted])], [PerTurn(1.0)], head_index=7)
    assert np.flatnonzero(row.comparable).tolist() == [1, 2]

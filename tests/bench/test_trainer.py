"""The trainer's measurement: what it makes its batch of, and where the numbers of an engine come from."""

import json
from pathlib import Path

import numpy as np
import pytest

from bench.trainer import engine_numbers
from bench.trainer_batch import ANSWER, SYSTEM, USER, joined_token_ratio, make_rows


def test_a_joined_session_is_compared_with_a_row_for_each_call() -> None:
    by_call = [SYSTEM + turn * (USER + ANSWER) for turn in (1, 2, 3)]
    assert joined_token_ratio(3) == pytest.approx(sum(by_call) / by_call[-1])


def test_the_batch_is_sessions_under_one_system_prompt() -> None:
    rows = make_rows(3, 2, 100)
    assert [int(row.trained.sum()) for row in rows] == [2 * ANSWER] * 3
    assert all(np.array_equal(row.token_ids[:SYSTEM], rows[0].token_ids[:SYSTEM]) for row in rows)
    assert len({row.token_ids.tobytes() for row in rows}) == 3 and {row.advantages[0] > 0 for row in rows} == {True, False}


def test_an_engines_numbers_are_those_that_the_trainer_wrote(tmp_path: Path) -> None:
    lines = [{"logprob_diff_median": 0.01, "paused_s": 0.2, "num_aborted": 0.0}, {"paused_s": 0.4, "num_aborted": 1.0}]
    (tmp_path / "trainer").mkdir()
    (tmp_path / "trainer" / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert engine_numbers(tmp_path) == {"logprob_diff_median": 0.01, "swap_pause_ms": pytest.approx(300), "swap_aborted": 1.0}
    without = engine_numbers(None)
    assert without["swap_pause_ms"] is None and "--engine" in str(without["null_because"])

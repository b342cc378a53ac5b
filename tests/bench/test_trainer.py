"""The trainer's measurement: what it makes its batch of, and what it says of a swap."""

from pathlib import Path

import numpy as np
import pytest

from bench.trainer_batch import ANSWER, SYSTEM, USER, joined_token_ratio, make_rows
from bench.trainer_clients import Seen, follow
from bench.trainer_swap import Swapped, longest_gap, numbers


def test_a_joined_session_is_compared_with_a_row_for_each_call() -> None:
    by_call = [SYSTEM + turn * (USER + ANSWER) for turn in (1, 2, 3)]
    assert joined_token_ratio(3) == pytest.approx(sum(by_call) / by_call[-1])


def test_the_batch_is_sessions_under_one_system_prompt() -> None:
    rows = make_rows(3, 2, 100)
    assert [int(row.trained.sum()) for row in rows] == [2 * ANSWER] * 3
    assert all(np.array_equal(row.token_ids[:SYSTEM], rows[0].token_ids[:SYSTEM]) for row in rows)
    assert len({row.token_ids.tobytes() for row in rows}) == 3 and {row.advantages[0] > 0 for row in rows} == {True, False}


SEEN = [
    *(Seen(0, at, "piece") for at in (0.0, 0.1, 0.2, 0.9, 1.0)),  # stands still from 0.2 to 0.9
    *(Seen(1, at, "piece") for at in (0.0, 0.3)),
    *(Seen(1, 0.35, "length"), Seen(1, 2.0, "asked"), Seen(1, 2.5, "piece")),  # nobody waits between two answers
]  # fmt: skip


def test_a_gap_is_the_longest_wait_that_a_swap_fell_into() -> None:
    assert longest_gap(SEEN, 0.5, 0.6) == pytest.approx(0.7)
    assert longest_gap(SEEN, 0.05, 0.1) == pytest.approx(0.3)
    assert longest_gap(SEEN, 2.1, 2.2) == pytest.approx(0.5), "who has asked and got nothing waits too"
    assert longest_gap(SEEN, 1.5, 1.6) == 0.0


def test_a_swap_is_told_with_what_was_usual_before_it() -> None:
    found = numbers([Swapped(0.4, 0.6, 0.15)], SEEN)
    assert found == {"n": 1, "gap_ms": 700, "usual_gap_ms": 300, "paused_ms": 150, "total_ms": 200, "gap_ms_max": 700}


def test_a_line_that_is_being_written_is_read_once_it_is_whole(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("0 1.5 piece\n1 1.6 broken\n0 1.")
    seen, first = follow(log), [Seen(0, 1.5, "piece"), Seen(1, 1.6, "broken")]
    assert seen() == first
    with log.open("a") as output:
        output.write("7 length\n")
    assert seen() == [*first, Seen(0, 1.7, "length")]

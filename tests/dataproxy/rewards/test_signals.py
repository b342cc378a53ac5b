"""Signals in plain texts: what is one, and above all what is none."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dataproxy.rewards.signals import is_correction, share_passed


@pytest.mark.parametrize(
    "text",
    [
        "No, that is the wrong queue.",
        "no that's not what I meant",
        "That's wrong",
        "This isn't it.",
        "I said refunds, not returns",
        "Hm. You misunderstood me",
        "still failing on line 3",
        "Please try again",
        "undo that, please",
        "Incorrect: it is 42",
        "You forgot the tests.",
    ],
)
def test_a_correction_is_one(text: str) -> None:
    assert is_correction(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Thanks!",
        "No problem, and now the next one",
        "No worries. Next: ticket 5",
        "no thanks",
        "Is that wrong?",
        "Great. What is still open?",
        "Now find out which of these is incorrect",
        "Nothing else",
        "Note that I said so before? Fine.",
    ],
)
def test_what_goes_on_is_no_correction(text: str) -> None:
    assert not is_correction(text)


@pytest.mark.parametrize(
    ("text", "share"),
    [
        ("==== 3 passed in 0.1s ====", 1.0),
        ("x.py F\n=== 1 failed, 3 passed, 2 warnings in 1.2s ===", 0.75),
        ("=== 2 errors in 1.2s ===", 0.0),
        ("Ran 4 tests in 0.001s\n\nOK", 1.0),
        ("Ran 4 tests in 0.001s\n\nFAILED (failures=1, errors=1)", 0.5),
        ("test result: ok. 5 passed; 0 failed; 0 ignored\ntest result: FAILED. 4 passed; 1 failed; 0 ignored", 0.9),
        ("Tests:       1 failed, 3 passed, 4 total", 0.75),
        ("ok  \tpkg/a\t0.1s\nFAIL\tpkg/b\t0.2s", 0.5),
        ('{"passed": 1, "failed": 3}', 0.25),
        ("all good", None),
        ("", None),
        ("Ran 0 tests in 0.000s\n\nOK", None),
        ('{"passed": true, "failed": 0}', None),
        ("the exam: he passed", None),
    ],
)
def test_the_outcome_of_a_run_is_the_share_that_passed(text: str, share: float | None) -> None:
    assert share_passed(text) == share


@given(st.text())
def test_any_text_is_read_without_an_error(text: str) -> None:
    assert share_passed(text) is None or 0 <= share_passed(text) <= 1
    is_correction(text)

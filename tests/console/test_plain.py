"""What agents say is shown as text: nothing in it is obeyed, and its length is bounded."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from atdp.events import Span
from dataproxy.console.plain import MOST_CHARACTERS, Budget, Piece, one_line, plain


def shown(text: str, *spans: Span) -> str:
    return "".join(piece.text for piece in plain(text, spans).pieces)


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        ("\x1b[31m", "␛[31m"),
        ("\x00\x07\x7f", "␀␇␡"),
        ("\u202egnp.exe", "⟨U+202E⟩gnp.exe"),
        ("a\u200bb\ufeff", "a⟨U+200B⟩b⟨U+FEFF⟩"),
        ("\ud800", "⟨U+D800⟩"),
        ("\U000e0041", "⟨U+E0041⟩"),
        ("a\tb\nc שלום 明天 ❤️", "a\tb\nc שלום 明天 ❤️"),
    ],
)
def test_what_a_screen_would_obey_is_named_and_the_rest_stays(text: str, seen: str) -> None:
    assert shown(text) == seen


@given(st.text(max_size=60))
def test_nothing_odd_is_left_and_nothing_is_lost(text: str) -> None:
    pieces = plain(text).pieces
    assert all("\u202e" not in p.text and "\x1b" not in p.text for p in pieces)
    assert sum(len(p.text) for p in pieces if not p.mark) + sum(p.mark == "odd" for p in pieces) == len(text)


def test_a_megabyte_shows_its_beginning_and_says_how_much_is_left_out() -> None:
    found = plain("A" * 1_000_000)
    assert sum(len(p.text) for p in found.pieces) == MOST_CHARACTERS
    assert found.left_out == 1_000_000 - MOST_CHARACTERS and found.is_long


def test_a_page_has_a_budget_and_every_text_still_shows_its_beginning() -> None:
    budget = Budget(characters=100, least=10)
    assert [plain("x" * 80, (), budget).left_out for _ in range(3)] == [0, 60, 70]


def test_redacted_values_stand_where_they_were_found() -> None:
    span = Span("EMAIL", "pattern", 1.0, "", 5, 14, "<EMAIL_1>")
    assert plain("mail <EMAIL_1> now", [span]).pieces == [Piece("mail "), Piece("<EMAIL_1>", "redacted", "EMAIL"), Piece(" now")]


def test_inside_a_string_of_json_the_surrogate_is_looked_for() -> None:
    span = Span("EMAIL", "pattern", 1.0, "/x", 0, 9, "<EMAIL_1>")
    assert [p.mark for p in plain('{"to": "<EMAIL_1>"}', [span]).pieces] == ["", "redacted", ""]


def test_a_surrogate_that_was_never_made_is_text() -> None:
    assert [p.mark for p in plain("<EMAIL_1>").pieces] == [""]


def test_where_one_line_is_wanted_there_is_one() -> None:
    assert one_line("a\nb\x1b" + "c" * 10, 6) == "a b␛cc…"

"""How text is folded before rules see it, and that positions lead back."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dataproxy.redact.folding import views


def deepest(text: str) -> bytes:
    return [*views(text)][-1].data


@pytest.mark.parametrize(
    ("text", "folded"),
    [
        ("４１１１", b"4111"),
        ("٤١", b"41"),
        ("a＠b", b"a@b"),
        ("1\u200b2\ufeff3\u00ad4", b"1234"),
        ("1\u20112\u22123", b"1-2-3"),
        ("1\u00a02", b"1 2"),
        ("卡1", b"\x801"),
        ("é", b"\xe9"),
        (r"a\n1", b"a\n1"),
        (r"\u0040\x41", b"@A"),
        (r"\\\\u0040", b"@"),
        ("%34%EF%BC%91", b"41"),
        ("&#64;&#x40;&amp;#64;", b"@@@"),
    ],
)
def test_a_disguise_is_folded_away(text: str, folded: bytes) -> None:
    assert deepest(text) == folded


def test_plain_text_has_one_view_and_an_escaped_one_more() -> None:
    assert len([*views("plain")]) == 1
    assert [view.data for view in views(r"a\\nb")] == [rb"a\\nb", rb"a\nb", b"a\nb"]


@given(st.text(alphabet=st.sampled_from("aé1４\u200b中😀\\nu0040%&#;@ "), max_size=40))
def test_every_byte_of_every_view_leads_back_into_the_text(text: str) -> None:
    for view in views(text):
        places = [view.span(n, n + 1) for n in range(len(view.data))]
        assert all(0 <= start < end <= len(text) for start, end in places)
        assert all(before[1] <= after[0] for before, after in pairwise(places))


def test_a_view_gives_the_whole_escape_to_the_character_it_stands_for() -> None:
    text = r"x\u0040y"
    assert [*views(text)][-1].span(1, 2) == (1, 7)


def test_words_before_a_value_are_read_through_escapes() -> None:
    view = [*views(r"\u7535\u8bdd\t1")][-1]
    assert "电话" in view.before(3, 40)

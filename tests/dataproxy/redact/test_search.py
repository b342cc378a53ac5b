"""Many needles at once give what one after another gives."""

from hypothesis import given
from hypothesis import strategies as st

from dataproxy.redact.search import Needles

ALPHABET = st.sampled_from(b"ab1\xff")
DATA = st.lists(ALPHABET, max_size=80).map(bytes)
NEEDLES = st.lists(st.lists(ALPHABET, min_size=1, max_size=9).map(bytes), max_size=40, unique=True)


def one_by_one(needles: list[bytes], data: bytes) -> list[tuple[int, int, int]]:
    return sorted(place for n, needle in enumerate(needles) for place in [(s, e, n) for s, e, _ in Needles([needle]).find(data)])


@given(NEEDLES, DATA)
def test_every_occurrence_is_found(needles: list[bytes], data: bytes) -> None:
    many = Needles(needles)
    assert sorted(many.find(data)) == one_by_one(needles, data)
    assert many.occur(data) == any(needle in data for needle in needles)


def test_a_needle_at_the_very_end_of_many_is_found() -> None:
    needles = [f"needle-{n:04d}".encode() for n in range(500)]
    assert Needles(needles).find(b"hay hay needle-0317") == [(8, 19, 317)]
    assert Needles(needles).find(b"") == [] and not Needles(needles).occur(b"needl")

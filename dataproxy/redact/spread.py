"""Takes every value found anywhere for found wherever it stands: in units and in token streams, in every spelling."""

from bisect import bisect_right
from collections.abc import Iterable
from itertools import accumulate

from dataproxy.redact.exchange import Detection
from dataproxy.redact.leaves import Leaf
from dataproxy.redact.policy import NAME_KINDS
from dataproxy.redact.search import Needles
from dataproxy.redact.spelling import cut_off, spellings
from dataproxy.redact.units import Unit, encode

NOT_SPREAD = frozenset(("BULK",))
"""Kinds whose value is a stretch of text and not a thing that would be named again."""

_BOUNDED = frozenset(NAME_KINDS)
"""Kinds whose values are words: "Ana" is not in "Anatolia"."""
_WORD = frozenset(b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz")


class Values:
    """Values in the clear, in memory for the time of one call, ready to be sought."""

    def __init__(self, values: dict[str, Detection]) -> None:
        """``values`` are the detections by the text of each."""
        self._raw = values
        self._owners = {form: found for raw, found in values.items() for form in spellings(raw)}
        self._by_number = list(self._owners.values())
        self._any_bounded = any(found.kind in _BOUNDED for found in values.values())
        self._needles = Needles([to_bytes(form) for form in self._owners])
        self._escaped: Needles | None = None

    def is_in(self, unit: Unit) -> bool:
        """Whether one stands in a unit that nobody looked into."""
        if self._escaped is None:
            self._escaped = Needles([encode_form(form) for form in self._owners])
        return self._escaped.occur(unit.data)

    def in_leaves(self, leaves: list[Leaf]) -> Iterable[tuple[int, Detection]]:
        """(leaf, detection) of every place in ``leaves``."""
        texts = [to_bytes(leaf.text) for leaf in leaves]
        starts = [0, *accumulate(len(text) + 1 for text in texts)]
        for start, end, n in self._places(b"\0".join(texts)):
            leaf = bisect_right(starts, start) - 1
            first, last = start - starts[leaf], end - starts[leaf]
            if last > len(texts[leaf]):
                continue
            if not leaves[leaf].text.isascii():
                first, last = (len(texts[leaf][:at].decode("utf-8", "surrogatepass")) for at in (first, last))
            yield leaf, self._by_number[n]._replace(start=first, end=last)

    def in_bytes(self, data: bytes) -> list[tuple[Detection, int, int]]:
        """Every place in decoded tokens, bytes [start, end)."""
        return [(self._by_number[n], start, end) for start, end, n in self._places(data)]

    def cut_off_in(self, text: str) -> Iterable[Detection]:
        """The values whose beginning ends ``text``."""
        for raw, found in self._raw.items():
            if place := cut_off(text, raw):
                yield found._replace(start=place[0], end=place[1])

    def cut_off_in_bytes(self, data: bytes) -> Iterable[tuple[Detection, int, int]]:
        """The values whose beginning ends decoded tokens."""
        for raw, found in self._raw.items():
            if place := cut_off(data, to_bytes(raw)):
                yield (found, *place)

    def occur(self, data: bytes) -> bool:
        """Whether one of them is in ``data``."""
        if self._any_bounded:
            return bool(self._places(data))
        return self._needles.occur(data)

    def _places(self, data: bytes) -> list[tuple[int, int, int]]:
        found = self._needles.find(data)
        return [place for place in found if self._stands(data, place)] if self._any_bounded else found

    def _stands(self, data: bytes, place: tuple[int, int, int]) -> bool:
        start, end, n = place
        if self._by_number[n].kind not in _BOUNDED:
            return True
        inside = data[start] in _WORD and start > 0 and data[start - 1] in _WORD
        return not inside and not (data[end - 1] in _WORD and end < len(data) and data[end] in _WORD)


def to_bytes(text: str) -> bytes:
    """The bytes that tokens would have: lone surrogates that stand for bytes become those again."""
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return text.encode("utf-8", "surrogatepass")


def encode_form(form: str) -> bytes:
    """A spelling as it is in a unit's JSON; one that is no Unicode is in no such unit."""
    return encode(form) or to_bytes(form)

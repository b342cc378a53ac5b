"""What a rule is: a cheap trigger for the prefilter, and a precise search over one view of the text."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from dataproxy.redact.folding import View


class Hit(NamedTuple):
    """Bytes [start, end) of a view; ``value`` is the value in one spelling, so that its other spellings equal it."""

    start: int
    end: int
    value: bytes


Find: TypeAlias = Callable[[View], Iterator[Hit]]
Judge: TypeAlias = Callable[[View, re.Match[bytes]], Hit | None]


@dataclass(slots=True, frozen=True)
class Rule:
    """``trigger`` is a Hyperscan expression that every hit of ``find`` implies. ``find`` takes time linear in the view.

    Of two overlapping detections that of the higher ``rank`` names the kind. Unless it ``spans_lines``, neither its hits nor the
    words that it judges by go across a line feed.
    """

    name: str
    kind: str
    score: float
    rank: int
    trigger: bytes
    find: Find
    spans_lines: bool = False


def by_pattern(pattern: bytes, judge: Judge) -> Find:
    """A search by one regular expression, each match of which ``judge`` turns into a hit or refuses.

    The pattern must not backtrack over long runs: a look-behind that forbids starting inside a run, and possessive repeats.
    """
    compiled = re.compile(pattern)

    def find(view: View) -> Iterator[Hit]:
        for match in compiled.finditer(view.data):
            hit = judge(view, match)
            if hit is not None:
                yield hit

    return find


def hit(match: re.Match[bytes], value: bytes | None = None, group: int = 0) -> Hit:
    """The whole of ``group`` as a hit; its own bytes are the value if no other spelling is given."""
    return Hit(match.start(group), match.end(group), match[group] if value is None else value)


def accept(_: View, match: re.Match[bytes]) -> Hit:
    """A judge for patterns that are proof enough."""
    return hit(match)

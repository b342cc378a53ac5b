"""Text that agents sent, made fit to be shown: pieces with marks, bounded, nothing in it that a browser or terminal obeys. Pure.

HTML is escaped by the templates. What is dealt with here is what escaping leaves: control characters, marks that turn the
direction of text, invisible characters, halves of surrogate pairs, and length.
"""

import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from atdp.events import Span

MOST_CHARACTERS = 20_000
"""Shown of one text; how many were left out is said."""

_LONG_LINES, _LONG = 15, 1500

_ODD = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-\u206f"
    "\u3164\ufeff\uffa0\ufff0-\ufffb\ud800-\udfff\U000e0000-\U000e0fff]"
)


@dataclass(slots=True, frozen=True)
class Piece:
    """``mark``: "" for text as it is, "odd" for a character made visible, "redacted" for a surrogate; ``kind`` says which."""

    text: str
    mark: str = ""
    kind: str = ""


@dataclass(slots=True, frozen=True)
class Plain:
    """A text to show, and the number of characters that are not shown."""

    pieces: list[Piece]
    left_out: int = 0

    @property
    def is_long(self) -> bool:
        """Whether it is shown in a frame of its own that scrolls."""
        lines = sum(piece.text.count("\n") for piece in self.pieces)
        return lines > _LONG_LINES or sum(len(piece.text) for piece in self.pieces) > _LONG


class Budget:
    """Characters that one page may show in all; when they are spent, each text shows its beginning only."""

    def __init__(self, characters: int = 600_000, least: int = 300) -> None:
        self._left = characters
        self._least = least

    def take(self, wanted: int) -> int:
        """How many of ``wanted`` characters may be shown."""
        given = max(min(wanted, MOST_CHARACTERS, self._left), min(wanted, self._least))
        self._left = max(0, self._left - given)
        return given


def plain(text: str, spans: Sequence[Span] = (), budget: Budget | None = None) -> Plain:
    """``text`` in pieces; ``spans`` are those of this text, with their places in it."""
    end = (budget or Budget()).take(len(text))
    pieces: list[Piece] = []
    at = 0
    for start, stop, kind in _places(text[:end], spans):
        pieces += _visible(text[at:start])
        pieces.append(Piece(one_line(text[start:stop], 128), "redacted", kind))
        at = stop
    pieces += _visible(text[at:end])
    return Plain(pieces, len(text) - end)


def one_line(text: str, most: int = 200) -> str:
    """``text`` for where one string is wanted: on one line, odd characters named, cut at ``most``."""
    cut = text[:most] + ("…" if len(text) > most else "")
    return _ODD.sub(lambda found: name_of(found.group()), cut.replace("\n", " ").replace("\t", " "))


def name_of(character: str) -> str:
    """What stands for an odd character: ␛ for ESC, U+202E in brackets for the rest that has no picture."""
    code = ord(character)
    if code < 0x20:
        return chr(0x2400 + code)
    return "␡" if code == 0x7F else f"⟨U+{code:04X}⟩"


def _visible(text: str) -> Iterator[Piece]:
    at = 0
    for found in _ODD.finditer(text):
        if found.start() > at:
            yield Piece(text[at : found.start()])
        yield Piece(name_of(found.group()), "odd", unicodedata.name(found.group(), f"U+{ord(found.group()):04X}"))
        at = found.end()
    if at < len(text):
        yield Piece(text[at:])


def _places(text: str, spans: Sequence[Span]) -> list[tuple[int, int, str]]:
    """(start, end, kind) of surrogates in ``text``, in order, none over another.

    A span inside a string of JSON is placed in what that string holds: there its surrogate is looked for.
    """
    found: list[tuple[int, int, str]] = []
    for span in spans:
        if span.surrogate and text[span.start : span.end] == span.surrogate:
            found.append((span.start, span.end, span.kind))
        elif span.surrogate:
            found += [(m.start(), m.end(), span.kind) for m in re.finditer(re.escape(span.surrogate), text)]
    kept: list[tuple[int, int, str]] = []
    for place in sorted(set(found)):
        if not kept or place[0] >= kept[-1][1]:
            kept.append(place)
    return kept

"""Cuts a text into pieces that can be looked at, and remembered, one by one.

Why cut pieces give what the whole text gives: every rule but those marked ``spans_lines`` matches within a line and judges by the
words of that line. Folding keeps each line feed where it is, in every layer (no escape goes across one), so a cut at a line feed
changes neither what a rule sees nor what stands before it. Where a rule that spans lines may begin, the text is looked at whole.

A text that goes on where another ended has the same pieces but for the last one: only that and what is new are looked at. Chat
templates end a turn with a mark and a line feed (``<|im_end|>``, ``<end_of_turn>``), so in a rendered prompt pieces are turns, and
the last turn of one prompt is the same piece in the next, for the line feed of a cut is in no piece.
"""

from collections.abc import Iterator

CHUNK = 512
"""Characters after which the next line feed ends a piece."""
_TURN_SHARE = 8
"""After so many times fewer a line feed behind a mark ends one."""
_MARK = ">\n"


def chunks(text: str, size: int = CHUNK) -> Iterator[tuple[int, int]]:
    """[start, end) of each piece of ``text``, in order; between two of them stands one line feed, in neither."""
    start, mark, length, turn = 0, -1, len(text), size // _TURN_SHARE
    while length - start > turn:
        if mark < start + turn:
            mark = text.find(_MARK, max(start, start + turn - 1)) + 1 or length
        end = text.find("\n", start + size, mark) if length - start > size else -1
        end = mark if end < 0 else end
        if end >= length:
            break
        yield start, end
        start = end + 1
    if start < length:
        yield start, length

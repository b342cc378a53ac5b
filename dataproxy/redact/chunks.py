"""Cuts a text into pieces that can be looked at, and remembered, one by one.

Why cut pieces give what the whole text gives: every rule but those marked ``spans_lines`` matches within a line and judges by the
words of that line. Folding keeps each line feed where it is, in every layer (no escape goes across one), so a cut right after a
line feed changes neither what a rule sees nor what stands before it. Where a rule that spans lines may begin, the text is looked
at whole. A text that goes on where another ended has the same pieces but for the last one: only that and what is new are looked at.
"""

from collections.abc import Iterator

CHUNK = 512
"""Characters after which the next line feed ends a piece."""


def chunks(text: str, size: int = CHUNK) -> Iterator[tuple[int, int]]:
    """[start, end) of each piece of ``text``, in order and without gaps; all but the last end after a line feed."""
    start = 0
    while len(text) - start > size:
        end = text.find("\n", start + size - 1) + 1
        if end == 0:
            break
        yield start, end
        start = end
    if start < len(text):
        yield start, len(text)

"""Puts values back where a text says their surrogates, be the text whole or come in pieces that a surrogate is split over."""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from dataproxy.pseudonym_types import Form

_HEAD = 4
_ESCAPED = frozenset("nrtbf")
"""Letters of JSON's escapes: behind a backslash they are no letters."""


class Restorer:
    """For one call. ``forms`` is not empty."""

    def __init__(self, forms: Sequence[Form]) -> None:
        self._sorted = sorted({form.surrogate for form in forms})
        self._head = min(_HEAD, min(map(len, self._sorted)))
        self._longest = max(map(len, self._sorted))
        self._by_head: dict[str, list[Form]] = defaultdict(list)
        for form in sorted(forms, key=lambda form: -len(form.surrogate)):
            self._by_head[form.surrogate[: self._head]].append(form)

    def whole(self, text: str) -> str:
        """``text``, all of it, with values."""
        return self.scan("", text, last=True)[0]

    def value(self, value: Any) -> Any:
        """A JSON value with every string, key and number restored."""
        if isinstance(value, str):
            return self.whole(value)
        if isinstance(value, dict):
            return {self.whole(name): self.value(item) for name, item in value.items()}
        if isinstance(value, list):
            return [self.value(item) for item in value]
        if isinstance(value, int) and not isinstance(value, bool):
            digits = str(value)
            found = self.whole(digits) if len(digits) >= _HEAD else digits
            return int(found) if found != digits and found.isdigit() else value
        return value

    def scan(self, before: str, text: str, last: bool) -> tuple[str, int]:
        """(what of ``text`` may go on, how many characters of it that is): up to where a surrogate may begin, unless it is all.

        ``before`` is what stood before it, as the engine said it; its last two characters count.
        """
        made: list[str] = []
        at = done = 0
        size = len(text)
        while at < size:
            form = self._form_at(before, text, at)
            if not last and self._may_go_on(text, at, form):
                break
            if form is None:
                at += 1
                continue
            made += (text[done:at], form.value)
            at += len(form.surrogate)
            done = at
        made.append(text[done:at])
        return "".join(made), at

    def _form_at(self, before: str, text: str, at: int) -> Form | None:
        """The longest surrogate that stands at ``at``."""
        for form in self._by_head.get(text[at : at + self._head], ()):
            if text.startswith(form.surrogate, at) and (not form.word or _is_word(before, text, at, at + len(form.surrogate))):
                return form
        return None

    def _may_go_on(self, text: str, at: int, form: Form | None) -> bool:
        """Whether more text could make another surrogate of what stands at ``at``, or none."""
        if form is not None and form.word and at + len(form.surrogate) == len(text):
            return True
        if len(text) - at >= self._longest:
            return False
        tail = text[at:]
        place = bisect_left(self._sorted, tail)
        if place < len(self._sorted) and self._sorted[place] == tail:
            place += 1 if form is not None else 0
        return place < len(self._sorted) and self._sorted[place].startswith(tail)


class Pieces:
    """One text that comes in pieces. Holds back no more than what may be the beginning of a surrogate."""

    def __init__(self, restorer: Restorer) -> None:
        self._restorer = restorer
        self._before = ""
        self._held = ""

    def feed(self, piece: str) -> str:
        """What may go on now."""
        return self._go_on(self._held + piece, last=False)

    def end(self) -> str:
        """What was held back."""
        return self._go_on(self._held, last=True)

    def _go_on(self, text: str, last: bool) -> str:
        made, taken = self._restorer.scan(self._before, text, last)
        self._before = (self._before + text[:taken])[-2:]
        self._held = text[taken:]
        return made


def _is_word(before: str, text: str, start: int, end: int) -> bool:
    left = text[max(0, start - 2) : start] if start >= 2 else (before + text[:start])[-2:]
    escaped = len(left) == 2 and left[0] == "\\" and left[1] in _ESCAPED
    return (escaped or not _is_alnum(left[-1:])) and not _is_alnum(text[end : end + 1])


def _is_alnum(character: str) -> bool:
    return character.isascii() and character.isalnum()

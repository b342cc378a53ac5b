"""Rules that a tenant wrote. Hyperscan itself finds them, in time linear in the text, so no pattern can hold up the drain.

A pattern of ASCII runs over the folded views, so that every disguise is seen through; any other runs over the text as it stands.
"""

from collections.abc import Iterable, Iterator

import hyperscan
import numpy as np

from dataproxy.redact.errors import InvalidPolicy
from dataproxy.redact.folding import View
from dataproxy.redact.policy import TenantRule
from dataproxy.redact.rules.checks import luhn
from dataproxy.redact.rules.digits import plain
from dataproxy.redact.rules.rule import Hit, Rule

_RANK = 30
_NOT_ASCII = rb"[\x80-\xff]"


def compile_rules(rules: Iterable[TenantRule]) -> tuple[Rule, ...]:
    """The rules, ready to be used beside the built-in ones.

    Raises:
        InvalidPolicy: Hyperscan refuses a pattern: it looks around itself, refers back, matches nothing, or is too large.
    """
    return tuple(_compile(rule) for rule in rules)


def _compile(rule: TenantRule) -> Rule:
    matcher = Matcher(rule.name, rule.pattern)

    def find(view: View) -> Iterator[Hit]:
        for start, end in matcher.spans(view):
            value = view.data[start:end]
            if rule.validator == "none" or luhn(plain(value)):
                yield Hit(start, end, value)

    trigger = rule.pattern.encode() if rule.pattern.isascii() else _NOT_ASCII
    return Rule(rule.name, rule.kind, 0.9, _RANK, trigger, find)


class Matcher:
    """One pattern. Not for use from two threads at once."""

    def __init__(self, name: str, pattern: str) -> None:
        """Compile ``pattern``; ``name`` is for the message.

        Raises:
            InvalidPolicy: Hyperscan refuses it.
        """
        self._ascii = pattern.isascii()
        flags = hyperscan.HS_FLAG_SOM_LEFTMOST | (0 if self._ascii else hyperscan.HS_FLAG_UTF8)
        self._database = hyperscan.Database(mode=hyperscan.HS_MODE_BLOCK)
        try:
            self._database.compile(expressions=[pattern.encode()], ids=[0], flags=[flags])
        except hyperscan.error as error:
            raise InvalidPolicy(
                f"rule {name!r}: the pattern is refused ({error}); look-around, back references, patterns that match nothing "
                f"and very large ones are not taken, because their time could not be bounded"
            ) from None
        self._scratch = hyperscan.Scratch(self._database)

    def spans(self, view: View) -> Iterator[tuple[int, int]]:
        """Bytes [start, end) of the view, the longest from each start on, none overlapping, none across lines."""
        if self._ascii:
            yield from self._lines(view.data)
        elif view.layer == 0:
            text = view.text.encode("utf-8", "surrogatepass")
            for start, end in self._lines(text):
                first, last = (len(text[:at].decode("utf-8", "surrogatepass")) for at in (start, end))
                if view.starts is not None:
                    first, last = (int(np.searchsorted(view.starts, at)) for at in (first, last))
                yield first, last

    def whole(self, text: str) -> bool:
        """Whether one match is all of ``text``."""
        data = text.encode("utf-8", "surrogatepass")
        return any((start, end) == (0, len(data)) for start, end in self._matches(data))

    def within(self, text: str) -> bool:
        """Whether a line of ``text``, as it stands, has a match."""
        return any(self._matches(line) for line in text.encode("utf-8", "replace").split(b"\n"))

    def _lines(self, data: bytes) -> Iterator[tuple[int, int]]:
        at = 0
        for line in data.split(b"\n"):
            after = 0
            longest: dict[int, int] = {}
            for start, end in self._matches(line):
                longest[start] = max(end, longest.get(start, 0))
            for start in sorted(longest):
                if start >= after:
                    after = longest[start]
                    yield at + start, at + after
            at += len(line) + 1

    def _matches(self, data: bytes) -> list[tuple[int, int]]:
        found: list[tuple[int, int]] = []

        def note(rule: int, start: int, end: int, flags: int, context: object) -> None:
            found.append((start, end))

        self._database.scan(data, match_event_handler=note, scratch=self._scratch)
        return found

"""The one presidio recognizer of the pattern lane: every rule on every view of a text."""

import time
from collections.abc import Iterator
from itertools import islice
from typing import Literal, TypeAlias

from dataproxy.redact.errors import RedactionFailed
from dataproxy.redact.folding import View, views
from dataproxy.redact.prefilter import Prefilter
from dataproxy.redact.presidio import LocalRecognizer, NlpArtifacts, RecognizerResult
from dataproxy.redact.rules import VERSION, Rule

VALUE = "value"
RULE = "rule"
"""Keys of a result's metadata: the value in its canonical spelling, and the rule that found it."""

Scope: TypeAlias = Literal["all", "within lines", "spanning"]
"""Which rules: all, those that match within a line, those that do not."""

Found: TypeAlias = tuple[int, int, int, bytes]
"""First and last character of the text, layer of escapes, canonical value."""


class PatternRecognizer(LocalRecognizer):  # type: ignore[misc]
    """Finds the values of its rules. A text is given to `read`, then `search` looks; presidio asks `analyze` for what was found.

    ``overflowed``: there were more than ``most`` hits, and the search was given up.
    """

    def __init__(self, rules: tuple[Rule, ...], most: int) -> None:
        self._prefilter = Prefilter(rules)
        self._most = most
        self.readings: list[tuple[View, list[Rule]]] = []
        self.overflowed = False
        self._results: list[RecognizerResult] = []
        kinds = sorted({rule.kind for rule in rules})
        super().__init__(supported_entities=kinds, name="HeadracePatterns", supported_language="en", version=VERSION)

    def load(self) -> None:
        """Nothing to load: the rules are compiled in the constructor."""

    def read(self, text: str, context: str, scope: Scope) -> bool:
        """Note the views of ``text`` in which a rule of ``scope`` can match, and say whether one that spans lines can."""
        self.overflowed = spans_lines = False
        self.readings = []
        for view in views(text, context):
            possible = self._prefilter.possible(view.data)
            spans_lines = spans_lines or any(rule.spans_lines for rule in possible)
            rules = [rule for rule in possible if scope == "all" or rule.spans_lines == (scope == "spanning")]
            if rules:
                self.readings.append((view, rules))
        return spans_lines

    def analyze(self, text: str, entities: list[str], nlp_artifacts: NlpArtifacts | None) -> list[RecognizerResult]:
        """What `search` found; overlaps of different rules are left in."""
        return self._results

    def search(self, deadline: float) -> bool:
        """Run the rules on the text that was read; says whether there is anything. ``deadline`` is in monotonic seconds.

        Raises:
            RedactionFailed: the deadline passed.
        """
        self._results = []
        found: dict[str, tuple[Rule, list[Found]]] = {}
        for view, rules in self.readings:
            left = self._most
            for rule in rules:
                if time.monotonic() > deadline:
                    raise RedactionFailed("timeout")
                hits = found.setdefault(rule.name, (rule, []))[1]
                new = [(*view.span(hit.start, hit.end), view.layer, hit.value) for hit in islice(rule.find(view), left + 1)]
                left -= len(new)
                if left < 0:
                    self.overflowed = True
                    return False
                hits += new
        self._results = [self._result(rule, *hit) for rule, hits in found.values() for hit in _deepest(hits)]
        return bool(self._results)

    def _result(self, rule: Rule, start: int, end: int, _: int, value: bytes) -> RecognizerResult:
        metadata = {
            RecognizerResult.RECOGNIZER_IDENTIFIER_KEY: self.id,
            RecognizerResult.RECOGNIZER_NAME_KEY: self.name,
            VALUE: value, RULE: rule,
        }  # fmt: skip
        return RecognizerResult(rule.kind, start, end, rule.score, recognition_metadata=metadata)


def _deepest(hits: list[Found]) -> Iterator[Found]:
    """Of one rule's hits that overlap those from the deepest layer of escapes.

    A shallow view misplaces borders: in ``\\njohn@…`` it takes the n of the escape for a letter of the name.
    """
    if all(layer == 0 for _, _, layer, _ in hits):
        yield from hits
        return
    group: list[Found] = []
    for hit in [*sorted(hits), None]:
        if group and (hit is None or hit[0] >= max(end for _, end, _, _ in group)):
            deepest = max(layer for _, _, layer, _ in group)
            yield from (found for found in group if found[2] == deepest)
            group = []
        if hit is not None:
            group.append(hit)

"""Puts surrogates where values stood, and says where they stand now."""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from atdp.events import Span
from dataproxy.redact.exchange import Detection

_JSON_STRING = re.compile(r'"(?:[^"\\]|\\.)*+"', re.DOTALL)
_NUMBER_CHARACTERS = "0123456789+-.eE"


@dataclass(slots=True)
class Surrogates:
    """Names values by kind and order of first occurrence: ``<EMAIL_1>``. Holds keyed digests only, for one exchange.

    An agent resends its history in order, so a value keeps its name over the turns of a session.
    """

    _names: dict[tuple[str, bytes], str] = field(default_factory=dict)
    _counts: dict[str, int] = field(default_factory=dict)

    def name(self, detection: Detection) -> str:
        """The surrogate of a detection's value, the same at every place."""
        key = detection.kind, detection.canonical
        if key not in self._names:
            self._counts[detection.kind] = self._counts.get(detection.kind, 0) + 1
            self._names[key] = f"<{detection.kind}_{self._counts[detection.kind]}>"
        return self._names[key]


def splice(text: str, detections: Sequence[Detection], surrogates: Surrogates, path: str) -> tuple[str, list[Span]]:
    """``text`` with each of ``detections`` (in order, none overlapping) replaced, and the spans of what stands there now.

    In a text that is JSON a bare number becomes a string, so that it stays JSON.
    """
    if not detections:
        return text, []
    pieces: list[str] = []
    spans: list[Span] = []
    at = length = 0
    for detection, start, end, quoted in _placed(text, tuple(detections)):
        surrogate = surrogates.name(detection)
        written = f'"{surrogate}"' if quoted else surrogate
        pieces += (text[at:start], written)
        first = length + start - at + quoted
        spans.append(Span(detection.kind, detection.detector, detection.score, path, first, first + len(surrogate), surrogate))
        length += start - at + len(written)
        at = end
    return "".join((*pieces, text[at:])), spans


def _placed(text: str, detections: tuple[Detection, ...]) -> list[tuple[Detection, int, int, bool]]:
    """Each detection with the characters to replace and whether the surrogate needs quotes of its own."""
    if not _is_json(text):
        return [(detection, detection.start, detection.end, False) for detection in detections]
    strings = [match.span() for match in _JSON_STRING.finditer(text)]
    placed: list[tuple[Detection, int, int, bool]] = []
    at = 0
    for detection in detections:
        while at < len(strings) and strings[at][1] <= detection.start:
            at += 1
        if at < len(strings) and strings[at][0] < detection.end:
            placed.append((detection, detection.start, detection.end, False))
            continue
        start, end = _number_around(text, detection.start, detection.end)
        if not placed or placed[-1][2] <= start:  # two values in one number: the first stands for all of it
            placed.append((detection, start, end, True))
    return placed


def _number_around(text: str, start: int, end: int) -> tuple[int, int]:
    while start > 0 and text[start - 1] in _NUMBER_CHARACTERS:
        start -= 1
    while end < len(text) and text[end] in _NUMBER_CHARACTERS:
        end += 1
    return start, end


def _is_json(text: str) -> bool:
    if text.lstrip()[:1] not in ("{", "["):
        return False
    try:
        json.loads(text)
    except ValueError:
        return False
    return True

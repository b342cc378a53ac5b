"""Surrogates that a gateway put into a request before the model saw it: they look like values, and are nobody's."""

from collections.abc import Callable, Iterable

from dataproxy.redact.exchange import Detection
from dataproxy.redact.policy import NAME_KINDS


class Standing:
    """What is found and may stay: a surrogate, in whatever spelling a rule sees through."""

    def __init__(self, surrogates: Iterable[str], detect: Callable[[str], Iterable[Detection]]) -> None:
        """``detect`` finds what the rules see in a surrogate by itself."""
        self._texts = frozenset(surrogates)
        self._canonical = frozenset(one.canonical for text in self._texts for one in detect(text) if _is_all(text, one))

    def covers(self, text: str, found: Detection) -> bool:
        """Whether ``found`` in ``text`` is one."""
        raw = text[found.start : found.end]
        if raw in self._texts or found.canonical in self._canonical:
            return True
        words = raw.split() if found.kind in NAME_KINDS else []
        return bool(words) and all(word.strip(".,;:!?'\"") in self._texts for word in words)


def _is_all(text: str, found: Detection) -> bool:
    """A rule may see a value in a part of a surrogate; that part is not one."""
    return found.start == 0 and found.end == len(text)

"""Detection in one text: presidio's engine with our recognizer, overlaps resolved here, results cached by keyed digest.

The cache holds offsets and keyed digests, never a text or a value.
"""

import hashlib
from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import replace

from dataproxy.redact.exchange import Detection
from dataproxy.redact.presidio import (
    AnalyzerEngine,
    ContextAwareEnhancer,
    NoOpNlpEngine,
    RecognizerRegistry,
    RecognizerResult,
)
from dataproxy.redact.recognizer import RULE, VALUE, PatternRecognizer
from dataproxy.redact.rules import VERSION

_CACHED_TEXTS = 20_000
_LANGUAGE = "en"
_SHORTEST = 6
"""No rule matches fewer characters."""


class _NoContext(ContextAwareEnhancer):  # type: ignore[misc]
    """Leaves results as they are: the rules judge context themselves, and presidio's enhancer copies every result deeply."""

    def __init__(self) -> None:
        super().__init__(
            context_similarity_factor=0, min_score_with_context_similarity=0, context_prefix_count=0, context_suffix_count=0
        )

    def enhance_using_context(
        self, text: str, raw_results: list[RecognizerResult], *_: object, **__: object
    ) -> list[RecognizerResult]:
        return raw_results


class Detector:
    """Finds personal values and secrets in texts. One per thread: the scratch space and the cache are not locked."""

    def __init__(self, key: bytes) -> None:
        """``key`` is the tenant's; digests of values and of cached texts are keyed by it."""
        self._key = hashlib.blake2b(key).digest()
        self._recognizer = PatternRecognizer()
        registry = RecognizerRegistry(recognizers=[self._recognizer], supported_languages=[_LANGUAGE])
        engine = NoOpNlpEngine(models=[{"lang_code": _LANGUAGE, "model_name": "none"}])
        self._analyzer = AnalyzerEngine(
            registry=registry, nlp_engine=engine, supported_languages=[_LANGUAGE], context_aware_enhancer=_NoContext()
        )
        self._cache: OrderedDict[bytes, tuple[Detection, ...]] = OrderedDict()

    def detect(self, text: str, context: str = "", deadline: float = float("inf")) -> tuple[Detection, ...]:
        """The values in ``text``, ordered, none overlapping. ``context`` stands before it; ``deadline`` in monotonic seconds.

        Raises:
            RedactionFailed: the deadline passed.
        """
        if len(text) < _SHORTEST:
            return ()
        digest = self.digest(f"{VERSION}\0{context}\0".encode() + text.encode("utf-8", "surrogatepass"))
        known = self._cache.get(digest)
        if known is not None:
            self._cache.move_to_end(digest)
            return known
        self._recognizer.context_before, self._recognizer.deadline = context, deadline
        found = merge(self._detection(result) for result in self._analyzer.analyze(text, language=_LANGUAGE))
        self._cache[digest] = found
        if len(self._cache) > _CACHED_TEXTS:
            self._cache.popitem(last=False)
        return found

    def digest(self, data: bytes) -> bytes:
        """16 bytes of blake2b under the tenant's key."""
        return hashlib.blake2b(data, digest_size=16, key=self._key).digest()

    def _detection(self, result: RecognizerResult) -> Detection:
        rule, value = result.recognition_metadata[RULE], result.recognition_metadata[VALUE]
        canonical = self.digest(rule.kind.encode() + b"\0" + value)
        return Detection(rule.kind, rule.name, rule.score, result.start, result.end, canonical, rule.rank)


def merge(detections: Iterable[Detection]) -> tuple[Detection, ...]:
    """``detections`` in order; those that overlap become one over their union, named by the highest rank, then the longest."""
    merged: list[Detection] = []
    for new in sorted(detections, key=lambda d: (d.start, -d.end)):
        if not merged or new.start >= merged[-1].end:
            merged.append(new)
            continue
        old = merged[-1]
        best = max(old, new, key=lambda d: (d.rank, d.end - d.start))
        merged[-1] = replace(best, start=old.start, end=max(old.end, new.end))
    return tuple(merged)

"""Detection in one text: presidio's engine with our recognizer, piece by piece, overlaps resolved here, each piece looked at once.

What is remembered of a piece, under a keyed digest of it, is offsets and keyed digests, never a text or a value.
"""

import hashlib
from collections.abc import Iterable
from typing import Final

from dataproxy.redact.allowed import Allowed
from dataproxy.redact.chunks import CHUNK, chunks
from dataproxy.redact.exchange import Detection
from dataproxy.redact.names import SpacyNames
from dataproxy.redact.policy import RedactionPolicy
from dataproxy.redact.presidio import (
    AnalyzerEngine,
    ContextAwareEnhancer,
    NoOpNlpEngine,
    RecognizerRegistry,
    RecognizerResult,
)
from dataproxy.redact.recent import Recent
from dataproxy.redact.recognizer import RULE, VALUE, PatternRecognizer, Scope
from dataproxy.redact.rules import RULES, VERSION
from dataproxy.redact.rules.tenant import compile_rules

MOST_VALUES: Final = 1000
"""In a text with more values than this the rest is one value of kind BULK: it is a list of people, and nothing to learn from."""

NO_POLICY: Final[RedactionPolicy] = RedactionPolicy()
_REMEMBERED_CHUNKS = 50_000
_LANGUAGE = "en"
_SHORTEST = 6
"""No built-in rule matches fewer characters."""
_BULK_RANK = 1000
_NAME_SCORE = 0.7


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
    """Finds personal values and secrets in texts. One per thread: the scratch space and what is remembered are not locked."""

    def __init__(self, key: bytes, policy: RedactionPolicy = NO_POLICY, chunk_size: int = CHUNK) -> None:
        """``key`` is the tenant's; digests of values and of remembered texts are keyed by it. ``chunk_size``: see `chunks`.

        Raises:
            InvalidPolicy: a pattern of ``policy`` is refused, or it asks for names and their models are not installed.
        """
        self._key = hashlib.blake2b(key).digest()
        self._chunk_size = chunk_size
        self._uncut = chunk_size // 8
        self._recognizer = PatternRecognizer((*RULES, *compile_rules(policy.rules)), MOST_VALUES)
        registry = RecognizerRegistry(recognizers=[self._recognizer], supported_languages=[_LANGUAGE])
        engine = NoOpNlpEngine(models=[{"lang_code": _LANGUAGE, "model_name": "none"}])
        self._analyzer = AnalyzerEngine(
            registry=registry, nlp_engine=engine, supported_languages=[_LANGUAGE], context_aware_enhancer=_NoContext()
        )
        self._one_kind = self._recognizer.supported_entities[:1]
        self._no_artifacts = engine.process_text("", _LANGUAGE)
        scopes: tuple[Scope, ...] = ("all", "within lines", "spanning")
        self._scopes = {scope: self._keyed(f"{VERSION}\0{scope}\0".encode()) for scope in scopes}
        self._shortest = 1 if policy.rules else _SHORTEST
        self._allowed = Allowed(policy, self.digest)
        self._names = SpacyNames(frozenset(policy.names)) if policy.names else None
        self._bulk = self.digest(b"BULK")
        self._chunks: Recent[tuple[tuple[Detection, ...], bool]] = Recent(_REMEMBERED_CHUNKS)

    def detect(self, text: str, context: str = "", deadline: float = float("inf")) -> tuple[Detection, ...]:
        """The values in ``text``, ordered, none overlapping. ``context`` stands before it; ``deadline`` in monotonic seconds.

        Raises:
            RedactionFailed: the deadline passed.
        """
        if len(text) < self._shortest:
            return ()
        if len(text) <= self._uncut:
            return self._remembered(text, context, "all", deadline)[0]
        found: list[Detection] = []
        spans_lines = False
        for start, end in chunks(text, self._chunk_size):
            if start == 0 and end == len(text):
                return self._remembered(text, context, "all", deadline)[0]
            hits, may_span = self._remembered(text[start:end], "" if start else context, "within lines", deadline)
            spans_lines = spans_lines or may_span
            found += [hit._replace(start=hit.start + start, end=hit.end + start) for hit in hits]
            if len(found) > MOST_VALUES:
                found[MOST_VALUES:] = [self._rest(found[MOST_VALUES].start, len(text))]
                break
        if spans_lines:
            return merge((*found, *self._remembered(text, context, "spanning", deadline)[0]))
        return tuple(found)

    def names(self, text: str, deadline: float = float("inf")) -> tuple[Detection, ...]:
        """The names in the prose of ``text``, where the tenant's policy asks for them.

        Raises:
            RedactionFailed: the deadline passed.
        """
        if self._names is None:
            return ()
        return tuple(
            Detection(name.kind, "names", _NAME_SCORE, name.start, name.end, self._name_digest(text[name.start : name.end]))
            for name in self._names.find(text, deadline)
            if text[name.start : name.end] not in self._allowed
        )

    def digest(self, data: bytes) -> bytes:
        """16 bytes of blake2b under the tenant's key."""
        return self._keyed(data).digest()

    def _keyed(self, data: bytes) -> "hashlib.blake2b":
        return hashlib.blake2b(data, digest_size=16, key=self._key)

    def _remembered(self, text: str, context: str, scope: Scope, deadline: float) -> tuple[tuple[Detection, ...], bool]:
        """The values in a text or a piece of one, and whether a value may begin there that goes on in the next piece."""
        state = self._scopes[scope].copy()
        state.update(f"{len(context)}\0{context}{text}".encode("utf-8", "surrogatepass"))
        known = self._chunks.get(digest := state.digest())
        if known is None:
            spans_lines = self._recognizer.read(text, context, scope)
            known = self._analyzed(text, deadline), spans_lines
            self._chunks.put(digest, known)
        return known

    def _analyzed(self, text: str, deadline: float) -> tuple[Detection, ...]:
        """The values in the text that the recognizer has just read; presidio is asked only where a rule matched."""
        recognizer = self._recognizer
        if not recognizer.readings or not (recognizer.search(deadline) or recognizer.overflowed):
            return ()
        if recognizer.overflowed:
            return (self._rest(0, len(text)),)
        # One recognizer finds every kind: asked for one of them, presidio need not gather all; without a model it needs no text.
        results = self._analyzer.analyze(text, _LANGUAGE, entities=self._one_kind, nlp_artifacts=self._no_artifacts)
        return merge(self._detection(result) for result in results if not self._may_stay(text, result))

    def _name_digest(self, name: str) -> bytes:
        return self.digest(b"name\0" + name.casefold().encode("utf-8", "surrogatepass"))

    def _may_stay(self, text: str, result: RecognizerResult) -> bool:
        return bool(self._allowed) and text[result.start : result.end] in self._allowed

    def _rest(self, start: int, end: int) -> Detection:
        return Detection("BULK", "bulk", 1.0, start, end, self._bulk, _BULK_RANK)

    def _detection(self, result: RecognizerResult) -> Detection:
        rule, value = result.recognition_metadata[RULE], result.recognition_metadata[VALUE]
        canonical = self.digest(rule.kind.encode() + b"\0" + value)
        return Detection(rule.kind, rule.name, rule.score, result.start, result.end, canonical, rule.rank)


def merge(detections: Iterable[Detection]) -> tuple[Detection, ...]:
    """``detections`` in order; those that overlap become one over their union, named by the highest rank, then the longest."""
    merged: list[Detection] = []
    found = list(detections)
    if len(found) < 2:
        return tuple(found)
    for new in sorted(found, key=lambda d: (d.start, -d.end)):
        if not merged or new.start >= merged[-1].end:
            merged.append(new)
            continue
        old = merged[-1]
        best = max(old, new, key=lambda d: (d.rank, d.end - d.start))
        merged[-1] = best._replace(start=old.start, end=max(old.end, new.end))
    return tuple(merged)

"""What was found in one exchange, in its JSON leaves and in its tokens, and the exchange made again without it."""

import re
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from atdp.events import Span
from dataproxy.redact.data_urls import data_urls
from dataproxy.redact.detector import Detector, merge
from dataproxy.redact.errors import RedactionFailed
from dataproxy.redact.exchange import Detection, Exchange, Flags, Ids, Json, RedactedExchange
from dataproxy.redact.leaves import Leaf, leaves, rebuild
from dataproxy.redact.masking import TokenStream, join, overwrite
from dataproxy.redact.spelling import cut_off, find, spellings
from dataproxy.redact.splice import Surrogates, splice
from dataproxy.redact.tokens import TokenBytes

_RENDERED_REQUEST = re.compile(r"/request/(?:messages/\d+/content(?:/\d+/text)?|prompt(?:/\d+)?)")
_RENDERED_RESPONSE = re.compile(r"/response/(?:.*/)?(?:content|text|reasoning_content|reasoning|arguments)(?:/\d+/text)?")
"""Texts that every template and parser carries over. Tools, names and earlier reasoning may be left out of a prompt: what is
found there is masked in the tokens if it is there, and not missed if it is not."""

_LEAST_PIECE = 4
_MANY = 200
"""With more values than this, those that both looks found are not searched for again: the time would grow with the square."""


@dataclass(slots=True, frozen=True)
class _Value:
    """A value in the clear, in memory for the time of one call."""

    detection: Detection
    forms: tuple[str, ...]


@dataclass(slots=True)
class _Stream:
    tokens: TokenStream
    found: list[tuple[Detection, int, int]]


class Findings:
    """Looks at an exchange on construction; then `spread`, `check_located` and `apply`, in this order."""

    def __init__(self, detector: Detector, exchange: Exchange, tokens: TokenBytes | None, deadline: float) -> None:
        """``deadline`` in monotonic seconds.

        Raises:
            RedactionFailed: the deadline passed, an id is unknown, or there are ids and no table of tokens.
        """
        self._exchange = replace(exchange, response=_without_logprobs(exchange.response))
        self._deadline = deadline
        self._detector = detector
        self._leaves = sorted(self._walk(), key=_place)
        self._found = {_name(leaf): self._in_leaf(leaf) for leaf in self._leaves}
        self._streams = [_Stream(stream, stream.find(self._detect)) for stream in _streams(exchange, tokens)]
        self._values: dict[str, _Value] = {}

    def spread(self) -> None:
        """Take every value found anywhere for found wherever it stands, in leaves and in tokens, in every spelling."""
        for stream in self._streams:
            self._cover_border(stream)
        values = dict(self._raw_values())
        if len(values) > _MANY:
            values = self._uncertain(values)
        self._values = {raw: _Value(found, spellings(raw)) for raw, found in values.items()}
        for raw, value in self._values.items():
            self._check_time()
            for leaf in self._leaves:
                places = find(leaf.text, value.forms)
                if _RENDERED_RESPONSE.fullmatch(leaf.pointer):
                    places += cut_off(leaf.text, raw)
                self._found[_name(leaf)] += [replace(value.detection, start=start, end=end) for start, end in places]
            for stream in self._streams:
                data = stream.tokens.data
                places = find(data, _encoded(value.forms)) + cut_off(data, raw.encode("utf-8", "surrogateescape"))
                stream.found += [(value.detection, *place) for place in places]

    def check_located(self) -> None:
        """Check that every value of a rendered text is in the tokens.

        Raises:
            RedactionFailed: one is not: it may lie there in a form that nobody looked for.
        """
        prompt_known, output_known = self._exchange.prompt_ids is not None, bool(self._exchange.output_ids)
        in_prompt = {d.canonical for s in self._streams for d, start, _ in s.found if start < s.tokens.border}
        in_either = {d.canonical for s in self._streams for d, _, _ in s.found}
        for leaf in self._leaves:
            if leaf.form == "key":
                continue
            if prompt_known and _RENDERED_REQUEST.fullmatch(leaf.pointer):
                self._require(leaf, in_prompt)
            elif output_known and _RENDERED_RESPONSE.fullmatch(leaf.pointer):
                self._require(leaf, in_either)

    def apply(self, mask_id: int) -> RedactedExchange:
        """The exchange without what was found.

        Raises:
            RedactionFailed: a value is still readable afterwards, or ``mask_id`` is no id.
        """
        surrogates = Surrogates()
        merged = {_name(leaf): merge(self._found[_name(leaf)]) for leaf in self._leaves}
        for leaf in self._leaves:
            for detection in merged[_name(leaf)]:
                surrogates.name(detection)
        spans: list[Span] = []
        texts: list[str] = []

        def put(leaf: Leaf, shown: str) -> Json:
            text, new = splice(leaf.text, merged[_name(leaf)], surrogates, shown)
            spans.extend(new)
            texts.append(text)
            return text

        request = rebuild(self._exchange.request, "/request", put)
        response = rebuild(self._exchange.response, "/response", put)
        strings = {name: str(rebuild(text, f"/strings/{name}", put)) for name, text in self._exchange.strings.items()}
        prompt_altered, output_altered = self._flags()
        self._check_gone("\0".join(texts), prompt_altered, output_altered)
        prompt_ids, output_ids = self._exchange.prompt_ids, self._exchange.output_ids
        return RedactedExchange(
            request=request,
            response=response,
            prompt_ids=None if prompt_ids is None else overwrite(prompt_ids, prompt_altered, mask_id),
            output_ids=[overwrite(ids, flags, mask_id) for ids, flags in zip(output_ids, output_altered, strict=True)],
            strings=strings,
            spans=spans,
            prompt_altered=None if prompt_ids is None else prompt_altered,
            output_altered=output_altered,
        )

    def _walk(self) -> Iterator[Leaf]:
        yield from leaves(self._exchange.request, "/request")
        yield from leaves(self._exchange.response, "/response")
        for name, text in self._exchange.strings.items():
            yield from leaves(text, f"/strings/{name}")

    def _in_leaf(self, leaf: Leaf) -> list[Detection]:
        return [*self._detect(leaf.text, leaf.context), *data_urls(leaf.text, self._detect)]

    def _detect(self, text: str, context: str = "") -> tuple[Detection, ...]:
        return self._detector.detect(text, context, self._deadline)

    def _raw_values(self) -> Iterator[tuple[str, Detection]]:
        for leaf in self._leaves:
            for found in merge(self._found[_name(leaf)]):
                yield leaf.text[found.start : found.end], found
        for stream in self._streams:
            for found, start, end in stream.found:
                yield stream.tokens.data[start:end].decode("utf-8", "surrogateescape"), found

    def _uncertain(self, values: dict[str, Detection]) -> dict[str, Detection]:
        """Values that may stand somewhere undetected: seen on one side only, or counted only because a word said so."""
        in_leaves = {found.canonical for others in self._found.values() for found in others}
        in_tokens = {found.canonical for stream in self._streams for found, _, _ in stream.found} if self._streams else in_leaves
        sure = in_leaves & in_tokens
        return {raw: found for raw, found in values.items() if found.canonical not in sure or found.kind == "PHONE"}

    def _require(self, leaf: Leaf, located: set[bytes]) -> None:
        if any(found.canonical not in located for found in merge(self._found[_name(leaf)])):
            raise RedactionFailed("unlocated", "a value of the text is not in the tokens")

    def _cover_border(self, stream: _Stream) -> None:
        """A value that begins in the prompt and ends in the output: mark its two pieces in the texts they belong to."""
        border = stream.tokens.border
        for found, start, end in stream.found:
            if start < border < end:
                head, tail = stream.tokens.data[start:border], stream.tokens.data[border:end]
                self._cover_piece(found, head.decode("utf-8", "ignore").strip(), _RENDERED_REQUEST, last=True)
                self._cover_piece(found, tail.decode("utf-8", "ignore").strip(), _RENDERED_RESPONSE, last=False)

    def _cover_piece(self, found: Detection, piece: str, where: re.Pattern[str], last: bool) -> None:
        """Mark ``piece`` in the texts of ``where``; one too short to be told from chance only at their end or beginning."""
        covered = not piece
        for leaf in self._leaves if piece else ():
            if not where.fullmatch(leaf.pointer):
                continue
            places = find(leaf.text, (piece,))
            if len(piece) < _LEAST_PIECE:
                at_edge = leaf.text.rstrip().endswith(piece) if last else leaf.text.lstrip().startswith(piece)
                places = (places[-1:] if last else places[:1]) if at_edge else []
            # Above its own kind: the piece may look like a value of its own and must not be named as another.
            piece_found = replace(found, rank=found.rank + 1)
            self._found[_name(leaf)] += [replace(piece_found, start=start, end=end) for start, end in places]
            covered = covered or bool(places)
        if not covered:
            raise RedactionFailed("unlocated", "a value across prompt and output is not in the text")

    def _flags(self) -> tuple[Flags, list[Flags]]:
        """Flags [P] of the prompt, whatever the choice that showed a value in it, and [N_i] of every output."""
        num_prompt = 0 if self._exchange.prompt_ids is None else len(self._exchange.prompt_ids)
        prompt, outputs = np.zeros(num_prompt, np.uint8), []
        for stream in self._streams:
            flags = stream.tokens.flags((start, end) for _, start, end in stream.found)
            prompt |= flags[:num_prompt]
            outputs.append(flags[num_prompt:])
        return prompt, outputs[: len(self._exchange.output_ids)]

    def _check_gone(self, text: str, prompt_altered: Flags, output_altered: list[Flags]) -> None:
        left = [
            stream.tokens.remaining(np.concatenate((prompt_altered, flags)))
            for stream, flags in zip(self._streams, output_altered or [np.zeros(0, np.uint8)], strict=False)
        ]
        for value in self._values.values():
            self._check_time()
            if any(form in text for form in value.forms):
                raise RedactionFailed("leak", "a value is left in the text")
            if any(form in data for data in left for form in _encoded(value.forms)):
                raise RedactionFailed("leak", "a value is left in the tokens")

    def _check_time(self) -> None:
        if time.monotonic() > self._deadline:
            raise RedactionFailed("timeout")


def _name(leaf: Leaf) -> tuple[str, bool]:
    return leaf.pointer, leaf.form == "key"


def _place(leaf: Leaf) -> int:
    """Messages are numbered first, then the answer, then the rest: so the next turn, which resends both, numbers alike."""
    if leaf.pointer.startswith(("/request/messages/", "/request/prompt")):
        return 0
    return 1 if leaf.pointer.startswith("/response/") else 2


def _encoded(forms: Iterable[str]) -> tuple[bytes, ...]:
    return tuple(form.encode("utf-8", "surrogateescape") for form in forms)


def _streams(exchange: Exchange, tokens: TokenBytes | None) -> list[TokenStream]:
    if exchange.prompt_ids is None and not exchange.output_ids:
        return []
    if tokens is None:
        raise RedactionFailed("no_token_table")
    nothing: Ids = np.zeros(0, np.int32)
    prompt = nothing if exchange.prompt_ids is None else exchange.prompt_ids
    return [join(tokens, prompt, output) for output in exchange.output_ids or [nothing]]


def _without_logprobs(response: Json) -> Json:
    """The answer without the agent's own copy of logprobs: it spells values token by token. The record has the exact ones."""
    choices = response.get("choices") if isinstance(response, dict) else None
    if not isinstance(response, dict) or not isinstance(choices, list):
        return response
    stripped: list[Json] = [
        {**choice, "logprobs": None} if isinstance(choice, dict) and choice.get("logprobs") else choice for choice in choices
    ]
    return {**response, "choices": stripped}

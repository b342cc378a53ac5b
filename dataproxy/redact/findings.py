"""What was found in one exchange, in its JSON leaves and in its tokens, and the exchange made again without it."""

import re
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from atdp.events import Span
from dataproxy.redact.data_urls import DATA_URL_SIGN, data_urls
from dataproxy.redact.detector import Detector, merge
from dataproxy.redact.errors import RedactionFailed
from dataproxy.redact.exchange import Detection, Exchange, Flags, Ids, Json, RedactedExchange
from dataproxy.redact.leaves import WORDS, Leaf
from dataproxy.redact.masking import TokenStream, join, overwrite
from dataproxy.redact.splice import Surrogates, splice
from dataproxy.redact.spread import NOT_SPREAD, Values, to_bytes
from dataproxy.redact.standing import Standing
from dataproxy.redact.tokens import TokenBytes
from dataproxy.redact.units import Rebuilt, Unit, UnitMemory, parts

_RENDERED_REQUEST = re.compile(r"/request/(?:messages/\d+/content(?:/\d+/text)?|prompt(?:/\d+)?)")
_RENDERED_RESPONSE = re.compile(r"/response/(?:.*/)?(?:content|text|reasoning_content|reasoning|arguments)(?:/\d+/text)?")
"""Texts that every template and parser carries over. Tools, names and earlier reasoning may be left out of a prompt: what is
found there is masked in the tokens if it is there, and not missed if it is not."""

_RENDERED_ENDS = ("/content", "/text", "/reasoning_content", "/reasoning", "/arguments")
"""What every pointer that `_RENDERED_RESPONSE` matches ends with: most others are passed over without it."""
_LEAST_PIECE = 4


@dataclass(slots=True)
class _Stream:
    tokens: TokenStream
    found: list[tuple[Detection, int, int]]


class Findings:
    """Looks at an exchange on construction; then `spread`, `check_located` and `apply`, in this order."""

    def __init__(
        self, detector: Detector, memory: UnitMemory, exchange: Exchange, tokens: TokenBytes | None, deadline: float
    ) -> None:
        """``deadline`` in monotonic seconds.

        Raises:
            RedactionFailed: the deadline passed, an id is unknown, or there are ids and no table of tokens.
        """
        response = _without_logprobs(exchange.response)
        self._exchange = exchange if response is exchange.response else replace(exchange, response=response)
        self._deadline = deadline
        self._detector = detector
        self._memory = memory
        self._parts = parts(self._exchange)
        self._units = list(self._parts)
        for unit in self._units:
            memory.look(unit, self._in_leaf)
        self._streams = [_Stream(stream, stream.find(self._detect)) for stream in _streams(exchange, tokens)]
        if exchange.surrogates:
            self._let_stand(Standing(exchange.surrogates, self._detect))
        self._values: Values | None = None
        self._digest = b""
        self._at_border = False

    def _let_stand(self, standing: Standing) -> None:
        """Leave out what stands in a value's place already."""
        for unit in self._units:
            texts = {n: unit.open()[n].text for n in unit.found}
            left = {n: [one for one in found if not standing.covers(texts[n], one)] for n, found in unit.found.items()}
            unit.found = {n: found for n, found in left.items() if found}
        for stream in self._streams:
            read = [(one, stream.tokens.data[start:end].decode("utf-8", "surrogateescape")) for one, start, end in stream.found]
            stream.found = [
                place
                for place, (one, text) in zip(stream.found, read, strict=True)
                if not standing.covers(text, one._replace(start=0, end=len(text)))
            ]

    def spread(self) -> None:
        """Take every value found anywhere for found wherever it stands, in leaves and in tokens, in every spelling."""
        for stream in self._streams:
            self._cover_border(stream)
        found = {raw: detection for raw, detection in self._raw_values() if detection.kind not in NOT_SPREAD}
        if not found:
            return
        self._values = values = Values(found)
        named = sorted(f"{raw}\0{detection.kind}" for raw, detection in found.items())
        self._digest = self._detector.digest("\0".join(named).encode("utf-8", "surrogatepass"))
        for unit in self._units:
            if unit is not self._parts.response and not self._at_border:
                self._memory.spread(unit, self._digest, self._search)
            else:
                self._search(unit)
        self._search_end(self._parts.response)
        for stream in self._streams:
            self._check_time()
            data = stream.tokens.data
            stream.found += (*values.in_bytes(data), *values.cut_off_in_bytes(data))

    def _search(self, unit: Unit) -> None:
        """Add every place of every value in a unit to what is found there."""
        self._check_time()
        if self._values is not None and (unit.leaves is not None or not unit.key or self._values.is_in(unit)):
            for n, detection in self._values.in_leaves(unit.open()):
                unit.add(n, detection)

    def _search_end(self, response: Unit) -> None:
        """Add the beginnings of values with which a text of the answer breaks off."""
        for n, leaf in enumerate(response.open() if self._values is not None else ()):
            if self._values is not None and leaf.pointer.endswith(_RENDERED_ENDS) and _RENDERED_RESPONSE.fullmatch(leaf.pointer):
                for detection in self._values.cut_off_in(leaf.text):
                    response.add(n, detection)

    def check_located(self) -> None:
        """Check that every value of a rendered text is in the tokens.

        Raises:
            RedactionFailed: one is not: it may lie there in a form that nobody looked for.
        """
        prompt_known, output_known = self._exchange.prompt_ids is not None, bool(self._exchange.output_ids)
        found_in = [(d.canonical, start < s.tokens.border) for s in self._streams for d, start, _ in s.found]
        in_prompt, in_either = {canonical for canonical, in_it in found_in if in_it}, {canonical for canonical, _ in found_in}
        for unit in self._units:
            for n, found in unit.found.items():
                pointer, _, _, form = unit.open()[n]
                if form == "key":
                    continue
                if prompt_known and _RENDERED_REQUEST.fullmatch(pointer):
                    _require(found, in_prompt)
                elif output_known and pointer.endswith(_RENDERED_ENDS) and _RENDERED_RESPONSE.fullmatch(pointer):
                    _require(found, in_either)

    def apply(self, mask_id: int, version: str, dropped: frozenset[str]) -> RedactedExchange:
        """The exchange without what was found; one with a kind that is ``dropped`` never trains.

        Raises:
            RedactionFailed: a value is still readable afterwards, or ``mask_id`` is no id.
        """
        surrogates = Surrogates()
        rebuilt = {}
        spans: list[Span] = []
        for unit in self._units:
            names: list[str] = []
            if unit.found:
                unit.found = {n: list(merge(found)) for n, found in sorted(unit.found.items())}
                names = [surrogates.name(detection) for detections in unit.found.values() for detection in detections]
            rebuilt[id(unit)] = made = self._rebuilt(unit, surrogates, names)
            spans += made[1]
        prompt_altered, output_altered = self._flags()
        self._check_tokens_gone(prompt_altered, output_altered)
        prompt_ids, output_ids = self._exchange.prompt_ids, self._exchange.output_ids
        return RedactedExchange(
            request=self._parts.request(self._exchange.request, lambda unit: rebuilt[id(unit)][0]),
            response=rebuilt[id(self._parts.response)][0][0],
            prompt_ids=None if prompt_ids is None else overwrite(prompt_ids, prompt_altered, mask_id),
            output_ids=[overwrite(ids, flags, mask_id) for ids, flags in zip(output_ids, output_altered, strict=True)],
            strings=dict(zip(self._exchange.strings, map(str, rebuilt[id(self._parts.strings)][0]), strict=True)),
            spans=spans,
            prompt_altered=None if prompt_ids is None else prompt_altered,
            output_altered=output_altered,
            version=version,
            never_trains=bool(dropped) and any(span.kind in dropped for span in spans),
        )

    def _in_leaf(self, leaf: Leaf) -> tuple[Detection, ...]:
        text = leaf.text
        if text in WORDS:
            return ()
        found = self._detector.detect(text, leaf.context, self._deadline)
        more = self._detector.names(text, self._deadline) if leaf.form == "string" else ()
        if DATA_URL_SIGN in text:
            more = (*more, *data_urls(text, self._detect))
        return merge((*found, *more)) if more else found

    def _detect(self, text: str) -> tuple[Detection, ...]:
        return self._detector.detect(text, "", self._deadline)

    def _raw_values(self) -> Iterator[tuple[str, Detection]]:
        for unit in self._units:
            for n, detections in unit.found.items() if unit.found else ():
                text = unit.open()[n].text
                for found in merge(detections) if len(detections) > 1 else detections:
                    yield text[found.start : found.end], found
        for stream in self._streams:
            for found, start, end in stream.found:
                yield stream.tokens.data[start:end].decode("utf-8", "surrogateescape"), found

    def _cover_border(self, stream: _Stream) -> None:
        """A value that begins in the prompt and ends in the output: mark its two pieces in the texts they belong to."""
        border = stream.tokens.border
        if any(found.kind in NOT_SPREAD and start < border < end for found, start, end in stream.found):
            stream.found = [(found, start, min(end, border)) for found, start, end in stream.found if start < border]
            stream.found += stream.tokens.find(self._detect, border)
        for found, start, end in stream.found:
            if start < border < end:
                self._at_border = True
                head, tail = stream.tokens.data[start:border], stream.tokens.data[border:end]
                self._cover_piece(found, head.decode("utf-8", "ignore").strip(), _RENDERED_REQUEST, last=True)
                self._cover_piece(found, tail.decode("utf-8", "ignore").strip(), _RENDERED_RESPONSE, last=False)

    def _cover_piece(self, found: Detection, piece: str, where: re.Pattern[str], last: bool) -> None:
        """Mark ``piece`` in the texts of ``where``; one too short to be told from chance only at their end or beginning."""
        covered = not piece
        for unit in self._units if piece else ():
            for n, leaf in enumerate(unit.open()):
                if not where.fullmatch(leaf.pointer):
                    continue
                starts = [match.start() for match in re.finditer(re.escape(piece), leaf.text)]
                if len(piece) < _LEAST_PIECE:
                    at_edge = leaf.text.rstrip().endswith(piece) if last else leaf.text.lstrip().startswith(piece)
                    starts = (starts[-1:] if last else starts[:1]) if at_edge else []
                for start in starts:
                    # Above its own kind: the piece may look like a value of its own and must not be named as another.
                    unit.add(n, found._replace(rank=found.rank + 1, start=start, end=start + len(piece)))
                covered = covered or bool(starts)
        if not covered:
            raise RedactionFailed("unlocated", "a value across prompt and output is not in the text")

    def _flags(self) -> tuple[Flags, list[Flags]]:
        """Flags [P] of the prompt, whatever the choice that showed a value in it, and [N_i] of every output."""
        num_prompt = 0 if self._exchange.prompt_ids is None else len(self._exchange.prompt_ids)
        prompt, outputs = np.zeros(num_prompt, np.uint8), []
        for stream in self._streams:
            flags = stream.tokens.flags([(start, end) for _, start, end in stream.found])
            prompt |= flags[:num_prompt]
            outputs.append(flags[num_prompt:])
        return prompt, outputs[: len(self._exchange.output_ids)]

    def _rebuilt(self, unit: Unit, surrogates: Surrogates, names: list[str]) -> Rebuilt:
        if not names:
            if unit.leaves is not None:
                self._require_gone(leaf.text for leaf in unit.leaves)
            return [value for _, value, _ in unit.roots], ()

        def make(unit: Unit) -> Rebuilt:
            return self._without_values(unit, surrogates)

        return self._memory.rebuild(unit, self._digest, names, make)

    def _without_values(self, unit: Unit, surrogates: Surrogates) -> Rebuilt:
        self._check_time()
        leaves = unit.open()
        found = {(leaves[n].pointer, leaves[n].form == "key"): detections for n, detections in unit.found.items()}
        texts: list[str] = []
        spans: list[Span] = []

        def put(leaf: Leaf, shown: str) -> Json:
            text, new = splice(leaf.text, found.get((leaf.pointer, leaf.form == "key"), ()), surrogates, shown)
            spans.extend(new)
            texts.append(text)
            return text

        values = unit.rebuilt(put)
        self._require_gone(texts)
        return values, tuple(spans)

    def _require_gone(self, texts: Iterable[str]) -> None:
        if self._values is not None and self._values.occur(to_bytes("\0".join(texts))):
            raise RedactionFailed("leak", "a value is left in the text")

    def _check_tokens_gone(self, prompt_altered: Flags, output_altered: list[Flags]) -> None:
        if self._values is None:
            return
        for stream, flags in zip(self._streams, output_altered or [np.zeros(0, np.uint8)], strict=False):
            self._check_time()
            if self._values.occur(stream.tokens.remaining(np.concatenate((prompt_altered, flags)))):
                raise RedactionFailed("leak", "a value is left in the tokens")

    def _check_time(self) -> None:
        if time.monotonic() > self._deadline:
            raise RedactionFailed("timeout")


def _require(found: list[Detection], located: set[bytes]) -> None:
    if not located.issuperset([detection.canonical for detection in merge(found)]):
        raise RedactionFailed("unlocated", "a value of the text is not in the tokens")


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
    if not any(isinstance(choice, dict) and choice.get("logprobs") for choice in choices):
        return response
    stripped: list[Json] = [
        {**choice, "logprobs": None} if isinstance(choice, dict) and choice.get("logprobs") else choice for choice in choices
    ]
    return {**response, "choices": stripped}

"""A request with surrogates in the place of its personal values, and what leads back from each.

Surrogates are drawn by a keyed digest of session, kind and value: the same in every turn of a session, and nothing is remembered.
A value found in one text is replaced in all, in every spelling; whatever cannot be done for certain raises.
"""

import time
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Any

import msgspec

from dataproxy.digests import KeyedDigests
from dataproxy.pseudonym_types import Form, Pseudonymized
from dataproxy.pseudonyms.spelled import SPELLINGS, base_of
from dataproxy.pseudonyms.surrogates import surrogate
from dataproxy.redact.data_urls import DATA_URL_SIGN, data_urls
from dataproxy.redact.detector import Detector, merge
from dataproxy.redact.errors import RedactionFailed
from dataproxy.redact.exchange import Detection, Json
from dataproxy.redact.leaves import WORDS, Leaf, leaves, rebuild
from dataproxy.redact.policy import NAME_KINDS
from dataproxy.redact.spread import Values, to_bytes

_KEPT = frozenset(("model", "user", "metadata", "safety_identifier", "prompt_cache_key"))
"""Not for the model: names of models, and whom the agent serves, by which a person's traffic is erased."""
_MEDIA = ("data:image/", "data:audio/", "data:video/")
_ATTEMPTS = 64
_LEAST_WORD = 3


@dataclass(slots=True)
class _Surrogates:
    """What each value is called. ``text`` is all that the request says: names are not taken from it."""

    digests: KeyedDigests
    session: str
    text: str
    by_value: dict[str, str] = field(default_factory=dict)
    by_surrogate: dict[str, str] = field(default_factory=dict)
    kinds: dict[str, str] = field(default_factory=dict)

    def of(self, raw: str, found: Detection) -> str:
        """The surrogate in the spelling of ``raw``."""
        base, spell = base_of(raw)
        if base not in self.by_value:
            made = self._drawn(base, found)
            self.by_value[base], self.by_surrogate[made], self.kinds[base] = made, base, found.kind
        return spell(self.by_value[base])

    def _drawn(self, base: str, found: Detection) -> str:
        for attempt in range(_ATTEMPTS):
            seed = f"{self.session}\0{found.kind}\0{found.canonical.hex()}\0{attempt}".encode("utf-8", "surrogatepass")
            draw = Random(self.digests.of(b"pseudonym", seed))
            made = surrogate(found.kind, base, draw)
            if attempt >= _ATTEMPTS // 2 and found.kind in NAME_KINDS:  # there are more names than our lists have
                made += draw.choice("aeiou") + draw.choice("nrst")
            if made != base and made not in self.by_surrogate and made not in self.by_value and made not in self.text:
                return made
        raise RedactionFailed("no_surrogate")

    def forms(self) -> list[Form]:
        """What leads back from every spelling of every surrogate; words of people's names by themselves as well."""
        found: dict[str, Form] = {}
        for base, made in self.by_value.items():
            is_word = self.kinds[base] in NAME_KINDS or made.isdigit()
            found[made] = Form(made, base, is_word and made.isascii())
            for spell in SPELLINGS:
                if (spelled := spell(made)) != made and spelled not in found:
                    found[spelled] = Form(spelled, spell(base), False)
        for base, made in self.by_value.items():
            words = list(zip(made.split(" "), base.split(" "), strict=False)) if self.kinds[base] == "PERSON" else []
            for word, meant in words if len(words) > 1 else ():
                if len(word) >= _LEAST_WORD and word[0].isupper() and word not in found:
                    found[word] = Form(word, meant, word.isascii())
        return list(found.values())


def pseudonymized(detector: Detector, digests: KeyedDigests, session: str, body: bytes, limit_s: float) -> Pseudonymized:
    """``body``, a request in any dialect, without its personal values; as it is where it holds none.

    Raises:
        RedactionFailed: time ran out, a value cannot be replaced, or one is left.
        msgspec.DecodeError: the body is no JSON object.
    """
    request = msgspec.json.decode(body, type=dict[str, Any])
    deadline = time.monotonic() + limit_s
    spoken: dict[str, Json] = {name: value for name, value in request.items() if name not in _KEPT}
    texts = leaves(spoken, "")
    found = {n: _look(detector, leaf, deadline) for n, leaf in enumerate(texts)}
    values = {leaf.text[one.start : one.end]: one for n, leaf in enumerate(texts) for one in found[n]}
    if not values:
        return Pseudonymized(body, [])
    spread = Values(values)
    more: dict[int, list[Detection]] = defaultdict(list)
    for n, one in spread.in_leaves(texts):
        more[n].append(one)
    found |= {n: merge((*found[n], *others)) for n, others in more.items()}
    if time.monotonic() > deadline:
        raise RedactionFailed("timeout")
    surrogates = _Surrogates(digests, session, "\0".join(leaf.text for leaf in texts))
    replaced = {
        (leaf.pointer, leaf.form == "key"): _replaced(leaf.text, found[n], surrogates) for n, leaf in enumerate(texts) if found[n]
    }
    made = rebuild(spoken, "", lambda leaf, _: _put(leaf, replaced))
    left = "\0".join(replaced.get((leaf.pointer, leaf.form == "key"), leaf.text) for leaf in texts)
    if not isinstance(made, dict) or spread.occur(to_bytes(left)):
        raise RedactionFailed("leak")
    whole = {**request, **made} if made.keys() == spoken.keys() else {**{k: request[k] for k in request if k in _KEPT}, **made}
    return Pseudonymized(msgspec.json.encode(whole), surrogates.forms())


def _look(detector: Detector, leaf: Leaf, deadline: float) -> tuple[Detection, ...]:
    text = leaf.text
    if text in WORDS or text.startswith(_MEDIA):
        return ()
    if DATA_URL_SIGN in text and any(True for _ in data_urls(text, lambda inner: detector.detect(inner, "", deadline))):
        raise RedactionFailed("data_url", "a value inside base64 cannot be replaced")
    found = detector.detect(text, leaf.context, deadline)
    found = merge((*found, *detector.names(text, deadline))) if leaf.form == "string" else found
    if any(one.kind == "BULK" for one in found):
        raise RedactionFailed("bulk", "more values than can be replaced")
    return found


def _replaced(text: str, found: tuple[Detection, ...], surrogates: _Surrogates) -> str:
    pieces: list[str] = []
    at = 0
    for one in found:
        pieces += (text[at : one.start], surrogates.of(text[one.start : one.end], one))
        at = one.end
    return "".join((*pieces, text[at:]))


def _put(leaf: Leaf, replaced: Mapping[tuple[str, bool], str]) -> Json:
    made = replaced.get((leaf.pointer, leaf.form == "key"))
    if made is None:
        return leaf.text
    if leaf.form == "number":
        try:
            number: Json = msgspec.json.decode(made.encode())
        except msgspec.DecodeError as error:
            raise RedactionFailed("number", "a number has no other of its form") from error
        return number
    return made

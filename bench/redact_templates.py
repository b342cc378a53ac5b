"""Recall on presidio-evaluator's templates, which no rule was tuned on, filled with values that Faker invents.

The sentences in ``data/presidio_templates.txt`` are of microsoft/presidio-research, ``raw_data/templates.txt`` (MIT licence). Those
in ``data/chinese_templates.txt``, for the names in Chinese, were written for this bench, before the lane was tried on them.
"""

import random
import re
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from dataproxy.redact.detector import Detector
from dataproxy.redact.policy import RedactionPolicy

TEMPLATES = Path(__file__).parent / "data" / "presidio_templates.txt"
CHINESE_TEMPLATES = TEMPLATES.with_name("chinese_templates.txt")
_FIELD = re.compile(r"\[([A-Z_]+)\]")
_KIND = {
    "PHONE_NUMBER": "PHONE", "PERSON": "PERSON", "FIRST_NAME": "PERSON", "LAST_NAME": "PERSON", "CREDIT_CARD_NUMBER": "CARD",
    "IBAN": "IBAN", "EMAIL_ADDRESS": "EMAIL", "IP_ADDRESS": "IP", "US_SSN": "SSN",
}  # fmt: skip
_LOCALES = ("en_US", "en_GB", "de_DE", "fr_FR", "es_ES", "it_IT", "nl_NL", "zh_CN")
_NAME_LOCALES = ("en_US", "en_GB", "en_IE", "en_AU", "de_DE", "fr_FR", "es_ES", "it_IT")


def template_hits(count: int, seed: int) -> dict[str, tuple[int, int]]:
    """(values found, values there) by kind and, below PERSON, by the template's own field, over ``count`` filled templates."""
    rng = random.Random(seed)
    fill, lines = _values(seed), TEMPLATES.read_text().splitlines()
    detector = Detector(b"bench", RedactionPolicy(names=("PERSON", "PLACE", "ORG")))
    counts: dict[str, list[int]] = defaultdict(lambda: [0, 0])
    for n in range(count):
        text, there = _filled(lines[n % len(lines)], fill, rng)
        found = [(d.start, d.end) for d in (*detector.detect(text), *detector.names(text))]
        for name, start, end in there:
            hit = _covered(text, found, start, end)
            for key in {_KIND[name], name if _KIND[name] == "PERSON" else _KIND[name]}:
                counts[key][0] += hit
                counts[key][1] += 1
    return {kind: (hits, total) for kind, (hits, total) in counts.items()}


def chinese_hits(count: int, seed: int) -> tuple[int, int, float]:
    """(names found, names there, share of the other characters replaced) over ``count`` Chinese sentences, each with a name that
    Faker invents.
    """
    from faker import Faker

    faker = Faker("zh_CN")
    faker.seed_instance(seed)
    lines, detector = CHINESE_TEMPLATES.read_text().splitlines(), Detector(b"bench", RedactionPolicy(names=("PERSON",)))
    hits, beside, others = 0, 0, 0
    for n in range(count):
        before, after = lines[n % len(lines)].split("[NAME]")
        name = faker.name()
        text, start, end = f"{before}{name}{after}", len(before), len(before) + len(name)
        found = [(d.start, d.end) for d in detector.names(text)]
        hits += _covered(text, found, start, end)
        beside += sum(not start <= at < end for s, e in found for at in range(s, e))
        others += len(before) + len(after)
    return hits, count, beside / others


def _covered(text: str, found: list[tuple[int, int]], start: int, end: int) -> bool:
    """Whether every letter and digit of the value is in what was found: part of a name left is a name left."""
    return all(any(s <= n < e for s, e in found) for n in range(start, end) if text[n].isalnum())


def _filled(
    template: str, fill: dict[str, Callable[[random.Random], str]], rng: random.Random
) -> tuple[str, list[tuple[str, int, int]]]:
    pieces, there, length = [], [], 0
    for n, piece in enumerate(_FIELD.split(template)):
        shown = fill[piece](rng) if n % 2 else piece
        if n % 2:
            there.append((piece, length, length + len(shown)))
        pieces.append(shown)
        length += len(shown)
    return "".join(pieces), there


def _values(seed: int) -> dict[str, Callable[[random.Random], str]]:
    from faker import Faker

    fakers: dict[str, Any] = {}
    for locale in {*_LOCALES, *_NAME_LOCALES}:
        fakers[locale] = Faker(locale)
        fakers[locale].seed_instance(seed)

    def of(method: str, locales: tuple[str, ...] = ("en_US",)) -> Callable[[random.Random], str]:
        return lambda rng: str(getattr(fakers[rng.choice(locales)], method)())

    def person(rng: random.Random) -> str:
        faker = fakers[rng.choice(_NAME_LOCALES)]
        return f"{faker.first_name()} {faker.last_name()}"

    return {
        "PHONE_NUMBER": of("phone_number", _LOCALES), "PERSON": person, "FIRST_NAME": of("first_name", _NAME_LOCALES),
        "LAST_NAME": of("last_name", _NAME_LOCALES), "CREDIT_CARD_NUMBER": of("credit_card_number"), "IBAN": of("iban", ("de_DE",)),
        "EMAIL_ADDRESS": of("email"), "IP_ADDRESS": of("ipv4_public"), "US_SSN": of("ssn"),
    }  # fmt: skip


def missed(count: int, seed: int, kind: str) -> Iterator[str]:
    """Filled templates in which a value of ``kind`` was not wholly found, with the value."""
    rng = random.Random(seed)
    fill, lines = _values(seed), TEMPLATES.read_text().splitlines()
    detector = Detector(b"bench", RedactionPolicy(names=("PERSON", "PLACE", "ORG")))
    for n in range(count):
        text, there = _filled(lines[n % len(lines)], fill, rng)
        found = [(d.start, d.end) for d in (*detector.detect(text), *detector.names(text))]
        for name, start, end in there:
            if kind in (name, _KIND[name]) and not _covered(text, found, start, end):
                yield f"{text[start:end]!r}: {text}"

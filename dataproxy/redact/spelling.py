"""The ways one value may be written where another part of the system rendered it: raw, JSON, HTML, percent."""

import html
import json
from collections.abc import Iterable
from typing import AnyStr
from urllib.parse import quote, quote_plus

_LEAST_CUT = 5
"""Beginnings that are shorter, or only letters, are words like any other."""


def spellings(value: str) -> tuple[str, ...]:
    """Every spelling of ``value``, itself first, no repeats. Lone surrogates, which stand for bytes that are no UTF-8, stay raw.

    A value found under an escape is unescaped as well: a template that parses tool arguments renders it plainly.
    """
    forms = [value]
    for base in dict.fromkeys((value, _unescaped(value), value.strip())):
        if any("\ud800" <= character <= "\udfff" for character in base):
            continue
        once, ascii_once = json.dumps(base, ensure_ascii=False)[1:-1], json.dumps(base)[1:-1]
        forms += [base, once, ascii_once, json.dumps(once, ensure_ascii=False)[1:-1], once.replace("/", "\\/")]
        forms += [html.escape(base), html.escape(base, quote=False), quote(base, safe=""), quote(base), quote_plus(base)]
    return tuple(dict.fromkeys(form for form in forms if form))


def find(text: AnyStr, forms: Iterable[AnyStr]) -> list[tuple[int, int]]:
    """Where any of ``forms`` stands in ``text``: places [start, end), possibly overlapping."""
    places: list[tuple[int, int]] = []
    for form in forms:
        at = text.find(form)
        while at >= 0:
            places.append((at, at + len(form)))
            at = text.find(form, at + len(form))
    return places


def cut_off(text: AnyStr, value: AnyStr) -> list[tuple[int, int]]:
    """Where the beginning of ``value`` ends ``text``: an answer stopped at its length limit may break off inside a value."""
    for size in range(min(len(value) - 1, len(text)), _LEAST_CUT - 1, -1):
        if text.endswith(value[:size]) and not value[:size].isalpha():
            return [(len(text) - size, len(text))]
    return []


def _unescaped(value: str) -> str:
    if "\\" not in value:
        return value
    try:
        text = json.loads(f'"{value}"')
    except ValueError:
        return value
    return text if isinstance(text, str) else value

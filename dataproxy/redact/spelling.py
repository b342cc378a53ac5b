"""The ways one value may be written where another part of the system rendered it: raw, JSON, HTML, percent."""

import html
import json
import re
from typing import AnyStr
from urllib.parse import quote, quote_plus

_LEAST_CUT = 5
"""Beginnings that are shorter, or only letters, are words like any other."""
_PLAIN = re.compile(r"[A-Za-z0-9_.\-~]+")
_QUOTED = {code: quote(chr(code), safe="") for code in range(128)}
_NO_ESCAPE = re.compile(r"[A-Za-z0-9_.\-~ @+()*,;:=?!$%]+")


def spellings(value: str) -> tuple[str, ...]:
    """Every spelling of ``value``, itself first, no repeats. Lone surrogates, which stand for bytes that are no UTF-8, stay raw.

    A value found under an escape is unescaped as well: a template that parses tool arguments renders it plainly.
    """
    if _PLAIN.fullmatch(value):
        return (value,)
    forms = [value]
    for base in dict.fromkeys((value, _unescaped(value), value.strip())):
        if any("\ud800" <= character <= "\udfff" for character in base):
            continue
        forms += (base, *_percent(base))
        if _NO_ESCAPE.fullmatch(base):
            continue
        once, ascii_once = json.dumps(base, ensure_ascii=False)[1:-1], json.dumps(base)[1:-1]
        forms += [once, ascii_once, json.dumps(once, ensure_ascii=False)[1:-1], once.replace("/", "\\/")]
        forms += [html.escape(base), html.escape(base, quote=False)]
    return tuple(dict.fromkeys(form for form in forms if form))


def _percent(base: str) -> tuple[str, ...]:
    """Percent-encoded: all of it, with slashes left, with plus for space. By a table where it is ASCII, as it mostly is."""
    if not base.isascii():
        return quote(base, safe=""), quote(base), quote_plus(base)
    whole = base.translate(_QUOTED)
    with_slashes = (whole.replace("%2F", "/"),) if "/" in base else ()
    return (whole, *with_slashes, *((whole.replace("%20", "+"),) if " " in base else ()))


def cut_off(text: AnyStr, value: AnyStr) -> tuple[int, int] | None:
    """Where the beginning of ``value`` ends ``text``: an answer stopped at its length limit may break off inside a value."""
    head = value[:_LEAST_CUT]
    if len(value) <= _LEAST_CUT:
        return None
    at = text.find(head, max(0, len(text) - len(value) + 1))
    while at >= 0:
        left = text[at:]
        if value.startswith(left):
            return None if left.isalpha() else (at, len(text))
        at = text.find(head, at + 1)
    return None


def _unescaped(value: str) -> str:
    if "\\" not in value:
        return value
    try:
        text = json.loads(f'"{value}"')
    except ValueError:
        return value
    return text if isinstance(text, str) else value

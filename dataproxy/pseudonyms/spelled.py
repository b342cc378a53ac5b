"""The spellings that a value may have where one program's text stands inside another's: JSON in JSON, percent, HTML."""

import html
import json
from collections.abc import Callable
from urllib.parse import quote, quote_plus, unquote, unquote_plus

Spell = Callable[[str], str]


def _json(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)[1:-1]


def _ascii_json(text: str) -> str:
    return json.dumps(text)[1:-1]


def _twice(text: str) -> str:
    return _json(_json(text))


def _percent(text: str) -> str:
    return quote(text, safe="")


def _unjson(text: str) -> str:
    found = json.loads(f'"{text}"')
    return found if isinstance(found, str) else text


SPELLINGS: tuple[Spell, ...] = (_json, _ascii_json, _twice, _percent, quote, quote_plus, html.escape)
_BACK: tuple[tuple[Spell, Spell], ...] = (
    (_unjson, _json),
    (_unjson, _ascii_json),
    (unquote, _percent),
    (unquote, quote),
    (unquote_plus, quote_plus),
    (html.unescape, html.escape),
)


def base_of(text: str) -> tuple[str, Spell]:
    """The plain value that ``text`` is a spelling of, and the spelling; itself where there is no other."""
    if not any(mark in text for mark in "\\%&+"):
        return text, str
    for back, spell in _BACK:
        try:
            base = back(text)
        except ValueError:
            continue
        if base != text and spell(base) == text:
            return base, spell
    return text, str

"""Walks a JSON value: every string, number and key that may hold a personal value, and the value put together again.

Strings that hold JSON are not parsed: the views of `folding` see through their escapes, and `splice` keeps them valid JSON.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

from dataproxy.redact.exchange import Json

_EXACT_FLOAT = 2.0**63


@dataclass(slots=True, frozen=True)
class Leaf:
    """One text inside a JSON value. ``pointer`` is the JSON pointer (RFC 6901) of it, or of the entry whose key it is.

    ``context`` is the key it stands under; ``form`` says whether it is a string, the digits of a number, or a key.
    """

    pointer: str
    text: str
    context: str
    form: Literal["string", "number", "key"] = "string"


Replace = Callable[[Leaf, str], Json]
"""Given a leaf and the pointer to show for it (of a key: of the object it is in), what stands in its place."""


def leaves(value: Json, pointer: str) -> Iterator[Leaf]:
    """Every leaf below ``value``, in the order of the document."""
    found: list[Leaf] = []

    def note(leaf: Leaf, _: str) -> Json:
        found.append(leaf)
        return leaf.text

    rebuild(value, pointer, note)
    yield from found


def rebuild(value: Json, pointer: str, replace: Replace) -> Json:
    """``value`` with every leaf replaced; a number whose digits come back unchanged stays a number."""
    return _rebuild(value, pointer, pointer, "", replace)


def _rebuild(value: Json, pointer: str, shown: str, context: str, replace: Replace) -> Json:
    if isinstance(value, str):
        return replace(Leaf(pointer, value, context), shown)
    if isinstance(value, bool) or value is None:
        return value
    if isinstance(value, int | float):
        digits = _digits(value)
        replaced = replace(Leaf(pointer, digits, context, "number"), shown)
        return value if replaced == digits else replaced
    if isinstance(value, list):
        return [_rebuild(item, f"{pointer}/{n}", f"{shown}/{n}", context, replace) for n, item in enumerate(value)]
    rebuilt: dict[str, Json] = {}
    for key, item in value.items():
        path = f"{pointer}/{_escaped(key)}"
        new_key = str(replace(Leaf(path, key, "", "key"), shown))
        # Two keys with one canonical value get one surrogate; neither entry may be lost.
        new_key = new_key if new_key not in rebuilt else f"{new_key}~{len(rebuilt)}"
        rebuilt[new_key] = _rebuild(item, path, f"{shown}/{_escaped(new_key)}", key, replace)
    return rebuilt


def _digits(value: int | float) -> str:
    if isinstance(value, float) and value.is_integer() and abs(value) < _EXACT_FLOAT:
        return str(int(value))
    return str(value)


def _escaped(key: str) -> str:
    return key.replace("~", "~0").replace("/", "~1")

"""Walks a JSON value: every string, number and key that may hold a personal value, and the value put together again.

Strings that hold JSON are not parsed: the views of `folding` see through their escapes, and `splice` keeps them valid JSON.
"""

from collections.abc import Callable
from typing import Final, Literal, NamedTuple

from dataproxy.redact.exchange import Json

_EXACT_FLOAT = 2.0**63

WORDS: Final = frozenset(
    (
        "additionalProperties", "arguments", "array", "assistant", "boolean", "cached_tokens", "chat.completion", "choices",
        "completion_tokens", "completion_tokens_details", "content", "created", "default", "description", "developer", "enum",
        "finish_reason", "function", "id", "include_usage", "index", "input", "integer", "items", "json_object", "length",
        "logprobs", "max_tokens", "message", "messages", "metadata", "model", "name", "number", "object", "output",
        "parameters", "prompt", "prompt_tokens", "prompt_tokens_details", "properties", "reasoning", "reasoning_content",
        "reasoning_tokens", "refusal", "required", "response_format", "role", "seed", "stop", "stream", "stream_options",
        "strict", "string", "system", "temperature", "text", "title", "tool", "tool_call_id", "tool_calls", "tools", "top_p",
        "total_tokens", "type", "usage", "user",
    )
)  # fmt: skip
"""Words of the protocols, nobody's: as keys they are no leaves, as values they are not looked into."""


class Leaf(NamedTuple):
    """One text inside a JSON value. ``pointer`` is the JSON pointer (RFC 6901) of it, or of the entry whose key it is.

    ``context`` is the key it stands under; ``form`` says whether it is a string, the digits of a number, or a key.
    """

    pointer: str
    text: str
    context: str
    form: Literal["string", "number", "key"] = "string"


Replace = Callable[[Leaf, str], Json]
"""Given a leaf and the pointer to show for it (of a key: of the object it is in), what stands in its place."""


def leaves(value: Json, pointer: str, context: str = "") -> list[Leaf]:
    """Every leaf below ``value``, which stands under the key ``context``, in the order of the document."""
    found: list[Leaf] = []
    _gather(value, pointer, context, found)
    return found


def rebuild(value: Json, pointer: str, replace: Replace, context: str = "") -> Json:
    """``value`` with every leaf replaced; a number whose digits come back unchanged stays a number."""
    return _rebuild(value, pointer, pointer, context, replace)


def digits(value: int | float) -> str:
    """A number as the rules read it: a whole one without a fraction."""
    if isinstance(value, float) and value.is_integer() and abs(value) < _EXACT_FLOAT:
        return str(int(value))
    return str(value)


def _gather(value: Json, pointer: str, context: str, found: list[Leaf]) -> None:
    if isinstance(value, str):
        found.append(Leaf(pointer, value, context))
    elif isinstance(value, dict):
        for key, item in value.items():
            if key in WORDS:
                path = f"{pointer}/{key}"
            else:
                path = f"{pointer}/{_escaped(key)}"
                found.append(Leaf(path, key, "", "key"))
            if isinstance(item, str):
                found.append(Leaf(path, item, key))
            elif item is not None:
                _gather(item, path, key, found)
    elif isinstance(value, list):
        for n, item in enumerate(value):
            _gather(item, f"{pointer}/{n}", context, found)
    elif value is not None and not isinstance(value, bool):
        found.append(Leaf(pointer, digits(value), context, "number"))


def _rebuild(value: Json, pointer: str, shown: str, context: str, replace: Replace) -> Json:
    if isinstance(value, str):
        return replace(Leaf(pointer, value, context), shown)
    if isinstance(value, bool) or value is None:
        return value
    if isinstance(value, int | float):
        text = digits(value)
        replaced = replace(Leaf(pointer, text, context, "number"), shown)
        return value if replaced == text else replaced
    if isinstance(value, list):
        return [_rebuild(item, f"{pointer}/{n}", f"{shown}/{n}", context, replace) for n, item in enumerate(value)]
    rebuilt: dict[str, Json] = {}
    for key, item in value.items():
        path = f"{pointer}/{_escaped(key)}"
        new_key = key if key in WORDS else str(replace(Leaf(path, key, "", "key"), shown))
        # Two keys with one canonical value get one surrogate; neither entry may be lost.
        new_key = new_key if new_key not in rebuilt else f"{new_key}~{len(rebuilt)}"
        rebuilt[new_key] = _rebuild(item, path, f"{shown}/{_escaped(new_key)}", key, replace)
    return rebuilt


def _escaped(key: str) -> str:
    return key.replace("~", "~0").replace("/", "~1") if "~" in key or "/" in key else key

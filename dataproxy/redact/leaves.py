"""Walks a JSON value: every string, number and key that may hold a personal value, and the value put together again.

Strings that hold JSON are not parsed: the views of `folding` see through their escapes, and `splice` keeps them valid JSON.
"""

from collections.abc import Callable
from typing import Final, Literal, NamedTuple

from dataproxy.redact.exchange import Json

_EXACT_FLOAT = 2.0**63

WORDS: Final = frozenset(
    (
        "role", "content", "messages", "model", "user", "assistant", "system", "developer", "tool", "tools", "type", "text", "function",
        "name", "arguments", "tool_calls", "tool_call_id", "parameters", "properties", "required", "description", "object", "string",
        "choices", "message", "finish_reason", "index", "id", "created", "usage", "prompt_tokens", "completion_tokens",
        "total_tokens", "stop", "length", "chat.completion", "reasoning_content", "reasoning", "refusal", "logprobs", "temperature",
        "top_p", "max_tokens", "stream", "stream_options", "include_usage", "metadata", "enum", "items", "array", "integer", "number",
        "boolean", "strict", "title", "default", "additionalProperties", "prompt_tokens_details", "completion_tokens_details",
        "cached_tokens", "reasoning_tokens", "response_format", "json_object", "seed", "input", "output", "arguments", "prompt",
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
            path = f"{pointer}/{_escaped(key)}"
            if key not in WORDS:
                found.append(Leaf(path, key, "", "key"))
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

"""Contents made of parts, in the form of chat completions: texts, images, and whatever else came, kept as it is."""

from collections.abc import Sequence
from typing import Any

_HINTS = frozenset(("cache_control", "annotations", "citations", "logprobs", "prompt_cache_breakpoint"))
"""What surrounds a text and changes from turn to turn, or spells it again; not a part of what was said."""


def text_part(text: Any, rest: dict[str, Any]) -> dict[str, Any]:
    """A text and what else its part says."""
    return {"type": "text", "text": text} | {k: v for k, v in rest.items() if k not in _HINTS and k not in ("type", "text")}


def image_part(url: Any, **rest: Any) -> dict[str, Any]:
    """An image by its URL, which may be a data URL."""
    return {"type": "image_url", "image_url": {"url": url, **{name: value for name, value in rest.items() if value is not None}}}


def content_of(parts: Sequence[dict[str, Any]]) -> Any:
    """The content that ``parts`` make: None for none, the text of a single plain text, else the list."""
    if not parts:
        return None
    if len(parts) == 1 and set(parts[0]) == {"type", "text"} and parts[0]["type"] == "text":
        return parts[0]["text"]
    return list(parts)


def tool_call(call_id: Any, name: Any, arguments: str, **rest: Any) -> dict[str, Any]:
    """A call of a function; ``arguments`` as the model wrote them."""
    function = {"name": name, "arguments": arguments}
    return {"id": call_id, "type": "function", "function": function} | {k: v for k, v in rest.items() if v is not None}

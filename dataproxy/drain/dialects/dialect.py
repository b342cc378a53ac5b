"""What a dialect must give: its requests and answers in the normal form."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Protocol


@dataclass(slots=True, frozen=True)
class NormalRequest:
    """``body``: ``messages`` and ``tools`` as chat completions have them, every other field as the agent sent it.

    ``user`` names whom the agent serves; ``previous`` is the id of the answer whose stored conversation it continues. "" for none.
    ``prefilled``: the answer goes on with the last message, which is the assistant's, and agents echo both as one.
    """

    body: dict[str, Any]
    user: str = ""
    previous: str = ""
    prefilled: bool = False


class Dialect(Protocol):
    """One dialect. A module with these functions is one."""

    def request(self, body: dict[str, Any]) -> NormalRequest:
        """The normal form of a request; what it does not know is kept."""

    def joined(self, events: Iterable[dict[str, Any]]) -> dict[str, Any]:
        """A stream's events, possibly cut off, as the answer that would have come whole."""

    def answer(self, value: dict[str, Any]) -> dict[str, Any]:
        """The normal form of a whole answer.

        ``{"choices": [{"index", "message", "finish_reason", "given_finish_reason"?}], "usage"?, "error"?, …}``: reasons are stop,
        length, tool_calls, content_filter or abort; ``given_finish_reason`` is the dialect's own word where it is another.
        """


def text_of(value: Any) -> str:
    """``value`` if it is a text."""
    return value if isinstance(value, str) else ""


def objects(value: Any) -> list[dict[str, Any]]:
    """Those items of a list that are JSON objects."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def reasons(normal: str | None, given: str | None) -> dict[str, str | None]:
    """The finish reason of a choice, and the dialect's own word for it where that differs."""
    return {"finish_reason": normal} | ({"given_finish_reason": given} if given != normal else {})


def joined_choices(
    events: Iterable[dict[str, Any]], per_chunk: frozenset[str], add: Callable[[dict[int, dict[str, Any]], dict[str, Any]], None]
) -> dict[str, Any]:
    """Chunks as one answer: ``add`` puts a part to its choice; fields named in ``per_chunk`` are not taken over as they are."""
    whole: dict[str, Any] = {}
    choices: dict[int, dict[str, Any]] = {}
    for chunk in events:
        whole |= {key: value for key, value in chunk.items() if key not in per_chunk}
        if chunk.get("usage") is not None:
            whole["usage"] = chunk["usage"]
        for part in objects(chunk.get("choices")):
            add(choices, part)
    if choices:
        whole["choices"] = [choices[index] for index in sorted(choices)]
    return whole

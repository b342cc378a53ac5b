"""The results of tool calls in the messages that an agent sends back, each joined to its call by the call's id.

Works on the normal form, so all dialects are one. Pure; which of the results are new is settled where they are stored, in
``tool_calls``.
"""

from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

import msgspec

from atdp.events import Span
from dataproxy.digests import KeyedDigests
from dataproxy.drain.exchange import ParsedExchange
from dataproxy.store.events import Content, StoredEvent

_TROUBLE: Final = ("Traceback (most recent call last)", "Error:", "ERROR:", "error:", "Exception:")
_encoder = msgspec.json.Encoder(order="deterministic")


@dataclass(slots=True, frozen=True)
class AskedCall:
    """What the model asked of a tool, redacted: ``arguments`` is the model's text; both are "" where nobody knows the call.

    ``spans`` are the values that were redacted in the two; their paths start at the event that is made of the call.
    """

    name: str = ""
    arguments: str = ""
    spans: Sequence[Span] = ()

    @classmethod
    def of(cls, function: Any, spans: Sequence[Span], place: int) -> "AskedCall":
        """The call ``function``, number ``place`` of a message; ``spans`` are the message's, and their paths start at it."""
        here = f"/tool_calls/{place}/function/"
        paths = [(f"{here}{name}", f"/a/{name}") for name in ("name", "arguments")] if spans else []
        moved = [
            msgspec.structs.replace(span, path=to + span.path[len(path) :])
            for path, to in paths
            for span in spans
            if span.path == path or span.path.startswith(f"{path}/")
        ]
        return cls(_of(function, "name"), _of(function, "arguments"), moved)


@dataclass(slots=True, frozen=True)
class ToolResult:
    """One result. ``key`` says which call of its session it is, however often the history is sent again.

    ``asked`` says nothing where the call itself was not sent back. ``is_latest``: it answers the last turn of the assistant, or
    the call lies with the engine.
    """

    key: bytes
    call_id: str
    asked: AskedCall
    content: Content
    is_latest: bool

    def error(self) -> str:
        """Who says that the tool failed: the agent ("reported"), the result's text ("in_result"), or nobody ("").

        Dialects without a mark for failure leave it to the text: a traceback, ``Error: …``, or JSON with an ``error``.
        """
        return _error(msgspec.json.decode(self.content.data, type=dict))


def tool_results(parsed: ParsedExchange, redacted_messages: Any, stored: StoredEvent, digests: KeyedDigests) -> list[ToolResult]:
    """The results in a request, in order. ``stored`` is its event, whose contents hold the redacted messages.

    The key is a keyed digest of what was said in the clear: surrogates may be numbered anew as a history grows.
    """
    raw, clean = parsed.request.get("messages"), redacted_messages
    if not isinstance(raw, list) or not isinstance(clean, list):
        return []
    roles = [message.get("role") if isinstance(message, dict) else None for message in raw]
    if "tool" not in roles:
        return []
    contents = {part.digest.hex(): part for part in stored.contents}
    names: Sequence[str] = stored.event.o["messages"]
    last_turn = max((i for i, role in enumerate(roles) if role == "assistant"), default=-1)
    calls: dict[str, tuple[Any, AskedCall]] = {}
    seen: Counter[bytes] = Counter()
    found = []
    for i, role in enumerate(roles):
        if role == "assistant":
            spans = contents[names[i]].spans
            for place, (of_raw, of_clean) in enumerate(zip(_calls(raw[i]), _calls(clean[i]), strict=False)):
                asked = AskedCall.of(of_clean.get("function"), spans, place)
                calls[str(of_raw.get("id"))] = (of_raw.get("function"), asked)
        if role != "tool" or not raw[i].get("tool_call_id"):
            continue
        call_id = str(raw[i]["tool_call_id"])
        said, asked = calls.get(call_id, (None, AskedCall()))
        same = _same(call_id, _of(said, "name"), _of(said, "arguments"))
        key = digests.of(b"tool-call", same + b"%d" % seen[same])
        seen[same] += 1
        found.append(
            ToolResult(
                key=key,
                call_id=str(clean[i].get("tool_call_id")),
                asked=asked,
                content=contents[names[i]],
                is_latest=i > last_turn,
            )
        )
    return found


def _calls(message: Any) -> list[dict[str, Any]]:
    calls = message.get("tool_calls") if isinstance(message, dict) else None
    return [call if isinstance(call, dict) else {} for call in calls] if isinstance(calls, list) else []


def _of(function: Any, name: str) -> str:
    value = function.get(name) if isinstance(function, dict) else None
    return value if isinstance(value, str) else "" if value is None else msgspec.json.encode(value).decode()


@lru_cache(maxsize=4096)
def _same(call_id: str, name: str, arguments: str) -> bytes:
    """Equal for a call however its arguments are written; remembered, for a history comes again every turn."""
    value: Any = arguments
    with suppress(msgspec.DecodeError, RecursionError):
        value = msgspec.json.decode(arguments)
    return _encoder.encode([call_id, name, value])


def _error(message: dict[str, Any]) -> str:
    if message.get("is_error"):
        return "reported"
    content = message.get("content")
    text = (
        content if isinstance(content, str) else "".join(_of(part, "text") for part in content) if isinstance(content, list) else ""
    )
    text = text.lstrip()
    if text.startswith(_TROUBLE):
        return "in_result"
    if text.startswith("{"):
        with suppress(msgspec.DecodeError, RecursionError):
            body = msgspec.json.decode(text)
            return "in_result" if body.get("error") or body.get("isError") is True else ""
    return ""

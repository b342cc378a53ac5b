"""What of a message identifies it: what a template reads, and nothing that agents change in passing.

Owns the canonical form and the chain of digests over a conversation. Messages are as SGLang hands them to the template:
`content` never null, arguments parsed where they were JSON. Not owned: whether an answer is one of ours (`echo`). Place
in the path: step 1, before a prompt is looked up.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from workers.inference.continuity.reasoning import Reasoning

Message = Mapping[str, Any]

ANSWER_ROLE: Final = "assistant"
_REASONING_FIELDS: Final = frozenset({"reasoning_content", "reasoning", "thinking"})
_EXACT_INTEGER: Final = 2.0**53
_DIGEST_BYTES: Final = 16

UNREADABLE: Final = (ValueError, TypeError, RecursionError)
"""What digests raise on what they cannot read: images, lone surrogates, JSON nested too deep."""


class UnknownContent(ValueError):
    """A message holds something besides text."""


@dataclass(slots=True, frozen=True)
class Call:
    """A tool call as a template reads it; `arguments` in canonical JSON. Its id is compared apart."""

    name: str
    arguments: bytes


def text_of(message: Message) -> str:
    """The text of a message: a string, null as "", or the joined texts of a list of text parts.

    Raises: UnknownContent for images and other parts.
    """
    content = message.get("content")
    if content is None or isinstance(content, str):
        return content or ""
    return "".join(_part_text(part) for part in (content if isinstance(content, list) else [content]))


def calls_of(message: Message) -> list[Call]:
    """The tool calls of a message, in order."""
    functions = [call.get("function") or {} for call in message.get("tool_calls") or []]
    return [Call(str(function.get("name")), canonical_arguments(function.get("arguments"))) for function in functions]


def call_ids_of(message: Message) -> list[str]:
    return [str(call.get("id")) for call in message.get("tool_calls") or []]


def canonical_arguments(arguments: Any) -> bytes:
    """Equal for equal JSON, whatever the key order, white space and notation; what is not JSON stands for itself."""
    try:
        value = msgspec.json.decode(arguments) if isinstance(arguments, str) else arguments
        canonical: bytes = msgspec.json.encode(_canonical_numbers(value), order="sorted")
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        return b"not json:" + str(arguments).encode(errors="surrogatepass")
    return canonical


def digest(*parts: bytes) -> bytes:
    """A digest of the parts, each with its length, so that no two lists of parts collide."""
    state = hashlib.blake2b(digest_size=_DIGEST_BYTES)
    for part in parts:
        state.update(len(part).to_bytes(8, "little"))
        state.update(part)
    return state.digest()


def chain(salt: str, messages: Sequence[Message], reasoning: Reasoning) -> list[bytes]:
    """Digests of all prefixes: item i stands for messages[:i] of the tenant with this cache salt.

    Raises: UNREADABLE; UnknownContent, one of them, where a message holds something besides text.
    """
    digests = [digest(salt.encode())]
    for message in messages:
        digests.append(digest(digests[-1], _canonical(message, reasoning)))
    return digests


def echo_digest(message: Message) -> bytes:
    """Digest of a message as the agent wrote it, its reasoning aside: equal means untouched."""
    return digest(msgspec.json.encode({key: value for key, value in message.items() if key not in _REASONING_FIELDS}))


def context_digest(*parts: Any) -> bytes:
    """Digest of what a template reads besides the messages: tools (in their order) and template arguments. Raises: UNREADABLE."""
    return digest(*(msgspec.json.encode(part) for part in parts))


def _part_text(part: Any) -> str:
    text = part.get("text") if isinstance(part, Mapping) and part.get("type") == "text" else part
    if not isinstance(text, str):
        raise UnknownContent
    return text


def _canonical(message: Message, reasoning: Reasoning) -> bytes:
    text = text_of(message)
    if message.get("role") != ANSWER_ROLE:
        rest = {key: value for key, value in message.items() if key != "content" and value is not None}
        return msgspec.json.encode([rest, text], order="sorted")
    calls = [(call.name, call.arguments) for call in calls_of(message)]
    return msgspec.json.encode([ANSWER_ROLE, message.get("name"), reasoning.after(text), calls, call_ids_of(message)])


def _canonical_numbers(value: Any) -> Any:
    """1.0 and 1 are one JSON number, and some languages write the first as the second."""
    if isinstance(value, float) and abs(value) < _EXACT_INTEGER and value.is_integer():
        return int(value)
    if isinstance(value, dict):
        return {key: _canonical_numbers(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_canonical_numbers(item) for item in value]
    return value

"""Digests at turn borders: of raw token ids (exact joins) and of messages (which conversation a call belongs to).

Computed in the drain before anything is masked, and keyed, so that they can be stored and say nothing.
"""

import hashlib
import re
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from dataproxy.digests import KeyedDigests

_TOKENS = b"token-prefix"
_MESSAGES = b"conversation"


def token_digests(digests: KeyedDigests, ids: NDArray[np.int32], lengths: Iterable[int]) -> dict[int, bytes]:
    """The digest of ``ids[:n]`` for each n of ``lengths`` that ``ids`` [N] is long enough for; one pass."""
    return prompt_digests(digests, ids, lengths)[0] if len(ids) else {}


def prompt_digests(
    digests: KeyedDigests, ids: NDArray[np.int32], lengths: Iterable[int]
) -> tuple[dict[int, bytes], Callable[[NDArray[np.int32]], bytes]]:
    """What ``token_digests`` gives, and what gives the digest of ``ids`` joined with an output [N]; one pass."""
    data = np.ascontiguousarray(ids, "<i4").view(np.uint8).data
    rolling = digests.rolling(_TOKENS)
    found: dict[int, bytes] = {}
    done = 0
    for length in sorted({n for n in lengths if 0 < n <= len(ids)}):
        rolling.update(data[done * 4 : length * 4])
        found[length] = rolling.digest()
        done = length
    rolling.update(data[done * 4 :])

    def with_output(output: NDArray[np.int32]) -> bytes:
        joined = rolling.copy()
        joined.update(np.ascontiguousarray(output, "<i4").view(np.uint8).data)
        return joined.digest()

    return found, with_output


class Conversation:
    """The digests of a conversation after each of its messages, as a chat template reads them (see ``as_read``); one pass."""

    def __init__(self, digests: KeyedDigests, messages: Sequence[Any]) -> None:
        self._states = [digests.rolling(_MESSAGES)]
        for message in messages:
            self._states.append(_read_on(self._states[-1], message))

    def digest(self, length: int) -> bytes:
        """That of the first ``length`` messages."""
        return self._states[length].digest()

    def ending_with(self, message: Any, length: int) -> bytes:
        """That of the first ``length`` messages and ``message``."""
        return _read_on(self._states[length], message).digest()


def _read_on(state: "hashlib.blake2b", message: Any) -> "hashlib.blake2b":
    state = state.copy()
    data = as_read(message)
    state.update(len(data).to_bytes(8, "little") + data)
    return state


def answered_prefixes(conversation: Conversation, messages: Sequence[Any]) -> list[bytes]:
    """The digests of those beginnings of ``messages``, of ``conversation``, that end with an assistant's answer, longest first."""
    ends = [i for i, message in enumerate(messages, 1) if isinstance(message, dict) and message.get("role") == "assistant"]
    return [conversation.digest(length) for length in reversed(ends)]


def as_read(message: Any) -> bytes:
    """What a template reads of ``message``: role, content ("" equals null), tool calls (arguments as JSON), tool call id.

    Reasoning, in a field or in the text, names of fields, their order, white space around a text, how numbers are written, whether
    a text came whole or in parts do not count: agents change those when they echo a turn.
    """
    if not isinstance(message, dict):
        return _canonical(message)
    role, calls, content = message.get("role"), message.get("tool_calls"), _content(message.get("content"))
    if role == "assistant" and isinstance(content, str) and content.startswith("<think>"):
        content = content[thought.end() :] if (thought := _THOUGHT.match(content)) else content
    read = [_call(call) for call in calls] if isinstance(calls, list) else []
    return _canonical([role, content, read, message.get("tool_call_id") or ""])


def _content(content: Any) -> Any:
    if isinstance(content, str):
        return content.strip()
    if not isinstance(content, list) or not all(isinstance(p, dict) and isinstance(p.get("text"), str) for p in content):
        return content or ""
    return "".join(part["text"] for part in content).strip()


def _call(call: Any) -> Any:
    function = call.get("function") if isinstance(call, dict) else None
    if not isinstance(call, dict) or not isinstance(function, dict):
        return call
    arguments = function.get("arguments")
    if isinstance(arguments, str):
        with suppress(msgspec.DecodeError, RecursionError):  # not JSON: compared as the text it is
            arguments = _arguments.decode(arguments)
    return [call.get("id"), function.get("name"), arguments]


def _number(text: str) -> float | int:
    """1.0 is 1: not every agent's language tells them apart."""
    value = float(text)
    return int(value) if value.is_integer() and abs(value) < 2**53 else value


_THOUGHT = re.compile(r"<think>.*?</think>\s*", re.DOTALL)
"""At the beginning of a text: where agents put the reasoning that came in a field of its own."""
_arguments = msgspec.json.Decoder(float_hook=_number)
_encoder = msgspec.json.Encoder(order="deterministic")


def _canonical(value: Any) -> bytes:
    return _encoder.encode(value)

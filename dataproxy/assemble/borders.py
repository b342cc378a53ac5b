"""Digests at turn borders: of raw token ids (exact joins) and of messages (which conversation a call belongs to).

Computed in the drain before anything is masked, and keyed, so that they can be stored and say nothing.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
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
    data = ids.astype("<i4").tobytes()
    rolling = digests.rolling(_TOKENS)
    found: dict[int, bytes] = {}
    done = 0
    for length in sorted({n for n in lengths if 0 < n <= len(ids)}):
        rolling.update(data[done * 4 : length * 4])
        found[length] = rolling.copy().digest()
        done = length
    return found


def conversation_digests(digests: KeyedDigests, messages: Sequence[Any]) -> list[bytes]:
    """For each i the digest of ``messages[: i + 1]``, as a chat template reads them (see ``as_read``)."""
    rolling = digests.rolling(_MESSAGES)
    found = []
    for message in messages:
        data = as_read(message)
        rolling.update(len(data).to_bytes(8, "little") + data)
        found.append(rolling.copy().digest())
    return found


def answered_prefixes(digests: KeyedDigests, messages: Sequence[Any]) -> list[bytes]:
    """The digests of those beginnings of ``messages`` that end with an assistant's answer, longest first."""
    found = conversation_digests(digests, messages)
    is_answer = [isinstance(m, Mapping) and m.get("role") == "assistant" for m in messages]
    return [digest for digest, answer in zip(found, is_answer, strict=True) if answer][::-1]


def as_read(message: Any) -> bytes:
    """What a template reads of ``message``: role, content ("" equals null), tool calls (arguments as JSON), tool call id.

    Reasoning, in a field or in the text, names of fields, their order, white space around a text, how numbers are written, whether
    a text came whole or in parts do not count: agents change those when they echo a turn.
    """
    if not isinstance(message, Mapping):
        return _canonical(message)
    calls, content = message.get("tool_calls"), _content(message.get("content"))
    if message.get("role") == "assistant" and isinstance(content, str):
        content = content[thought.end() :] if (thought := _THOUGHT.match(content)) else content
    return _canonical(
        [
            message.get("role"),
            content,
            [_call(call) for call in calls] if isinstance(calls, list) else [],
            message.get("tool_call_id") or "",
        ]
    )


def _content(content: Any) -> Any:
    if isinstance(content, str):
        return content.strip()
    if not isinstance(content, list) or not all(isinstance(p, Mapping) and isinstance(p.get("text"), str) for p in content):
        return content or ""
    return "".join(part["text"] for part in content).strip()


def _call(call: Any) -> Any:
    function = call.get("function") if isinstance(call, Mapping) else None
    if not isinstance(call, Mapping) or not isinstance(function, Mapping):
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

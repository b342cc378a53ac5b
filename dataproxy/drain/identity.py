"""What is said of an exchange by keyed digests alone, taken before redaction.

Who is served, which harness asks, which conversation it is, which tokens it ends with.
"""

from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np

from dataproxy.assemble.borders import answered_prefixes, conversation_digests, token_digests
from dataproxy.digests import KeyedDigests
from dataproxy.drain.exchange import ParsedExchange

_HARNESS_FIELDS = ("tools", "tool_choice", "temperature", "top_p", "top_k", "min_p", "max_tokens", "max_completion_tokens", "stop")
_RETRY_HEADERS = ("x-stainless-retry-count", "x-retry-count")
_encoder = msgspec.json.Encoder(order="deterministic")


@dataclass(slots=True, frozen=True)
class Identity:
    """``prefixes``, ``ends``, ``borders``: see ``NewCall``. ``is_retry``: the agent's SDK says that it sends this body again."""

    subject: str
    harness: str
    request_digest: bytes
    is_retry: bool
    prefixes: list[bytes]
    ends: dict[int, bytes]
    borders: dict[int, tuple[int, bytes]]


def identify(parsed: ParsedExchange, digests: KeyedDigests) -> Identity:
    """The identity of an exchange."""
    request, raw = parsed.request, parsed.raw.request
    user = request.get("user")
    retries = [raw.headers.get(name, "0") for name in _RETRY_HEADERS]
    return Identity(
        subject=digests.of(b"subject", user.encode()).hex() if isinstance(user, str) and user else "",
        harness=digests.of(b"harness", _encoder.encode(_harness(parsed))).hex(),
        request_digest=digests.of(b"request", raw.body),
        is_retry=any(value not in ("", "0") for value in retries),
        prefixes=answered_prefixes(digests, parsed.messages),
        ends=_ends(parsed, digests),
        borders=_borders(parsed, digests),
    )


def _harness(parsed: ParsedExchange) -> list[Any]:
    """System prompts, tool schemas and sampling as the agent asks for them."""
    system = [m.get("content") for m in parsed.messages if m.get("role") in ("system", "developer")]
    return [system, {name: parsed.request[name] for name in _HARNESS_FIELDS if name in parsed.request}]


def _ends(parsed: ParsedExchange, digests: KeyedDigests) -> dict[int, bytes]:
    ends = {}
    choices = parsed.answer.get("choices")
    for choice in choices if isinstance(choices, list) else []:
        if isinstance(choice, dict) and isinstance(choice.get("message"), dict):
            ends[int(choice.get("index", 0))] = conversation_digests(digests, [*parsed.messages, choice["message"]])[-1]
    return ends


def _borders(parsed: ParsedExchange, digests: KeyedDigests) -> dict[int, tuple[int, bytes]]:
    borders = {}
    for tokens in parsed.tokens:
        full = np.concatenate((tokens.prompt_ids, tokens.output_ids))
        if len(full):
            borders[tokens.choice] = len(full), token_digests(digests, full, [len(full)])[len(full)]
    return borders

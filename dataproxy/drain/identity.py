"""What is said of an exchange by keyed digests alone, taken before redaction.

Who is served, which harness asks, which conversation it is, which tokens it ends with.
"""

from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np

from dataproxy.assemble.borders import Conversation, answered_prefixes, prompt_digests
from dataproxy.digests import KeyedDigests
from dataproxy.drain.exchange import ParsedExchange

_HARNESS_FIELDS = {
    **{name: name for name in ("tools", "tool_choice", "temperature", "top_p", "top_k", "min_p", "max_tokens", "stop")},
    "max_completion_tokens": "max_tokens",
    "max_output_tokens": "max_tokens",
    "stop_sequences": "stop",
}
_MOST_TURNS = 512
_RETRY_HEADERS = ("x-stainless-retry-count", "x-retry-count")
_encoder = msgspec.json.Encoder(order="deterministic")


@dataclass(slots=True, frozen=True)
class Identity:
    """``prefixes``, ``token_prefixes``, ``ends``, ``borders``: see ``NewCall``.

    ``is_retry``: the agent's SDK says that it sends this body again. ``tools``: a fingerprint of each tool's definition, in order.
    """

    subject: str
    harness: str
    request_digest: bytes
    is_retry: bool
    tools: list[str]
    prefixes: list[bytes]
    token_prefixes: list[bytes]
    ends: dict[int, bytes]
    borders: dict[int, tuple[int, bytes]]


def identify(parsed: ParsedExchange, digests: KeyedDigests) -> Identity:
    """The identity of an exchange."""
    raw, user = parsed.raw.request, parsed.user
    messages = parsed.conversation
    conversation = Conversation(digests, messages)
    token_prefixes, borders = _of_tokens(parsed, digests)
    retries = [raw.headers.get(name, "0") for name in _RETRY_HEADERS]
    return Identity(
        subject=digests.of(b"subject", user.encode()).hex() if user else "",
        harness=digests.of(b"harness", _encoder.encode(_harness(parsed))).hex(),
        request_digest=digests.of(b"request", raw.body),
        is_retry=any(value not in ("", "0") for value in retries),
        tools=[digests.of(b"tool", _encoder.encode(tool)).hex() for tool in _tools(parsed)],
        prefixes=answered_prefixes(conversation, messages),
        token_prefixes=token_prefixes,
        ends=_ends(parsed, conversation),
        borders=borders,
    )


def _harness(parsed: ParsedExchange) -> list[Any]:
    """System prompts, tool schemas and sampling as the agent asks for them."""
    system = [m.get("content") for m in parsed.messages if m.get("role") in ("system", "developer")]
    return [system, {common: parsed.request[name] for name, common in _HARNESS_FIELDS.items() if name in parsed.request}]


def _tools(parsed: ParsedExchange) -> list[Any]:
    tools = parsed.request.get("tools")
    return tools if isinstance(tools, list) else []


def name_of(tool: Any) -> str:
    """What a tool's definition calls it; nothing where it is no definition."""
    named = tool.get("function", tool) if isinstance(tool, dict) else None
    name = named.get("name") if isinstance(named, dict) else None
    return name if isinstance(name, str) else ""


def _ends(parsed: ParsedExchange, conversation: Conversation) -> dict[int, bytes]:
    ends = {}
    choices = parsed.answer.get("choices")
    for choice in choices if isinstance(choices, list) else []:
        if isinstance(choice, dict) and isinstance(choice.get("message"), dict):
            message, length = parsed.as_echoed(choice["message"])
            ends[int(choice.get("index", 0))] = conversation.ending_with(message, length)
    return ends


def _of_tokens(parsed: ParsedExchange, digests: KeyedDigests) -> tuple[list[bytes], dict[int, tuple[int, bytes]]]:
    """The digests of those beginnings of the prompt at which an earlier answer may have ended, longest first; and the borders.

    An answer ends with the token that ends this one, which in templates is that of a turn; one cut by length is found by its
    messages.
    """
    ended = {int(t.output_ids[-1]) for t in parsed.tokens if len(t.output_ids) and t.finish_reason not in ("length", "abort", None)}
    if not parsed.tokens:
        return [], {}
    prompt, lengths = parsed.tokens[0].prompt_ids, list[int]()
    if ended:
        is_end = prompt == ended.pop() if len(ended) == 1 else np.isin(prompt, list(ended))
        lengths = (is_end.nonzero()[0][-_MOST_TURNS:] + 1).tolist()
    found, with_output = prompt_digests(digests, prompt, lengths)
    borders = {
        tokens.choice: (len(prompt) + len(tokens.output_ids), with_output(tokens.output_ids))
        for tokens in parsed.tokens
        if len(prompt) + len(tokens.output_ids)
    }
    return [found[length] for length in reversed(lengths)], borders

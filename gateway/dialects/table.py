"""The dialects, one row each. ``BY_PATH`` finds the row of a request."""

from collections.abc import Callable
from dataclasses import dataclass, field

import msgspec

from gateway.dialects import openings
from gateway.dialects.forms import ANTHROPIC, OPENAI, OPENAI_RESPONSES, ErrorForm
from gateway.dialects.openings import Beginnings, Opening

_RECORD = b"event: headrace.record"


@dataclass(slots=True, frozen=True)
class Dialect:
    """One row. ``path`` is the agent's and the engine's; ``name`` labels records and metrics.

    ``prefix`` begins the ids; a row without one does not generate, and is relayed without a record. ``held_from`` are the events
    at which a stream's end begins, by their first bytes: the engine's record, else the first event that ends the answer.
    """

    name: str
    path: str
    prefix: str
    held_from: tuple[bytes, ...]
    form: ErrorForm
    opening: Callable[[dict[str, msgspec.Raw], Beginnings], Opening]
    keeps_answers: bool = False
    """Whether the engine stores answers under their id, so that later calls must reach the same worker."""
    target: bytes = field(init=False)
    """``path`` on the wire."""
    generates: bool = field(init=False)
    """Whether a call samples tokens: only then it has an id, a record and a place in the journal."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "target", self.path.encode())
        object.__setattr__(self, "generates", bool(self.prefix))


def _held_from(*ends: bytes) -> tuple[bytes, ...]:
    return (_RECORD, *ends)


_DONE = _held_from(b"data: [DONE]")
_RESPONSE_ENDS = _held_from(b"event: response.completed", b"event: response.incomplete", b"event: response.failed")
_MESSAGE_ENDS = _held_from(b"event: message_delta", b"event: message_stop")

CHAT = Dialect("chat", "/v1/chat/completions", "chatcmpl-", _DONE, OPENAI, openings.chat)
COMPLETIONS = Dialect("completions", "/v1/completions", "cmpl-", _DONE, OPENAI, openings.completions)
RESPONSES = Dialect("responses", "/v1/responses", "resp_", _RESPONSE_ENDS, OPENAI_RESPONSES, openings.responses, keeps_answers=True)
MESSAGES = Dialect("messages", "/v1/messages", "msg_", _MESSAGE_ENDS, ANTHROPIC, openings.messages)
COUNT_TOKENS = Dialect("count_tokens", "/v1/messages/count_tokens", "", (), ANTHROPIC, openings.messages)
EMBEDDINGS = Dialect("embeddings", "/v1/embeddings", "", (), OPENAI, openings.nothing)

BY_PATH = {dialect.path: dialect for dialect in (CHAT, COMPLETIONS, RESPONSES, MESSAGES, COUNT_TOKENS, EMBEDDINGS)}

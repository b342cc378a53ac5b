"""The event: τ = (e₁ … e_T), eₜ = ⟨oₜ, hₜ, aₜ, yₜ, rₜ, mₜ⟩ (arXiv 2607.01120), with an envelope around it.

Take ``h`` and ``m`` away and a standard POMDP trace is left. Unknown fields and kinds survive a round trip (``extra``).
"""

from typing import Any

import msgspec

from atdp import PROTOCOL_VERSION
from atdp.errors import InvalidEvent

KINDS = frozenset(
    {
        *("model_call", "tool_call", "retrieval", "memory_read", "memory_write", "file", "browser", "approval"),
        *("feedback", "correction", "reward", "lifecycle", "decision", "access", "erasure"),
    }
)


class Span(msgspec.Struct, frozen=True, omit_defaults=True):
    """One redacted value: what it was, where it stood in the redacted text, and what stands there now. Never the value.

    ``path`` is the JSON pointer of the text it was found in; ``start`` and ``end`` are characters of the redacted text.
    """

    kind: str
    detector: str
    score: float
    path: str
    start: int
    end: int
    surrogate: str


class TokenRecord(msgspec.Struct, frozen=True, omit_defaults=True):
    """The engine's exact tokens of one choice, after masking. All output arrays have length N.

    prompt_ids [P] int32, output_ids [N] int32, logprobs [N] float32, versions [N] int32 (policy version index),
    prompt_altered [P] uint8, output_altered [N] uint8: raw little-endian bytes.
    """

    choice: int
    prompt_ids: bytes
    output_ids: bytes
    logprobs: bytes
    versions: bytes
    prompt_altered: bytes
    output_altered: bytes
    finish_reason: str | None
    tokenizer: str = ""


class Event(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """One event of a trajectory. Made by the data proxy, kept in the store, read by everybody. Times are UTC µs."""

    atdp: str = PROTOCOL_VERSION
    event_id: str
    tenant: str
    agent: str
    subject: str = ""
    session_id: str = ""
    lane: str = "stable"
    trajectory_id: str = ""
    seq: int = 0
    parent_id: str | None = None
    kind: str
    started_at: int
    ended_at: int
    boundary: str
    o: dict[str, Any] = {}
    h: dict[str, Any] = {}
    a: dict[str, Any] = {}
    y: dict[str, Any] = {}
    r: list[dict[str, Any]] = []
    m: dict[str, Any] = {}
    spans: list[Span] = []
    extra: dict[str, Any] = {}


_KNOWN = frozenset(Event.__struct_fields__) - {"extra"}


def encode_event(event: Event) -> bytes:
    """JSON of ``event``, unknown fields put back where they stood."""
    body = msgspec.to_builtins(event)
    return msgspec.json.encode({**body.pop("extra", {}), **body})


def decode_event(data: bytes) -> Event:
    """The event in JSON ``data``; fields that this version does not know are kept in ``extra``.

    Raises:
        InvalidEvent: not JSON, a field is missing or of another type, or it ends before it starts.
    """
    try:
        body = msgspec.json.decode(data, type=dict[str, Any])
        known = {key: value for key, value in body.items() if key in _KNOWN}
        extra = {key: value for key, value in body.items() if key not in _KNOWN}
        event = msgspec.convert({**known, "extra": extra}, Event)
    except msgspec.DecodeError as error:
        raise InvalidEvent(str(error)) from error
    if event.ended_at < event.started_at:
        raise InvalidEvent(f"event {event.event_id} ends before it starts")
    return event

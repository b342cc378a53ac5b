"""The event: τ = (e₁ … e_T), eₜ = ⟨oₜ, hₜ, aₜ, yₜ, rₜ, mₜ⟩ (arXiv 2607.01120), with an envelope around it.

Take ``h`` and ``m`` away and a standard POMDP trace is left. Unknown fields and kinds survive a round trip (``extra``).
"""

from typing import Annotated, Any

import msgspec

from atdp import PROTOCOL_VERSION

Id = Annotated[str, msgspec.Meta(min_length=1, max_length=128)]
Name = Annotated[str, msgspec.Meta(max_length=128)]
Kind = Annotated[str, msgspec.Meta(pattern=r"^[a-z][a-z0-9_.\-]{0,63}$(?!\n)")]
Version = Annotated[str, msgspec.Meta(pattern=r"^1\.[0-9]+$(?!\n)")]
"""Of the protocol: minor versions add, and are accepted."""
TimeUs = Annotated[int, msgspec.Meta(ge=0)]
Count = Annotated[int, msgspec.Meta(ge=0)]

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
    """One event of a trajectory. Made by the data proxy, kept in the store, read by everybody. Times are UTC µs.

    ``group`` names the task that several sessions attempt, and whose rewards are compared. ``extra`` holds what this version
    does not know (see ``atdp.codec``); on the wire it stands where it stood.
    """

    atdp: Version = PROTOCOL_VERSION
    event_id: Id
    tenant: Name
    agent: Name
    subject: Name = ""
    session_id: Name = ""
    group: Name = ""
    lane: Name = "stable"
    trajectory_id: Name = ""
    seq: Count = 0
    parent_id: Id | None = None
    kind: Kind
    started_at: TimeUs
    ended_at: TimeUs
    boundary: Name
    o: dict[str, Any] = {}
    h: dict[str, Any] = {}
    a: dict[str, Any] = {}
    y: dict[str, Any] = {}
    r: list[dict[str, Any]] = []
    m: dict[str, Any] = {}
    spans: list[Span] = []
    extra: dict[str, Any] = {}

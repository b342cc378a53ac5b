"""What is asked and answered about the vault of raw tokens, and about reviews of redaction. Times are UTC µs."""

from typing import Literal

import msgspec

from atdp.events import Span

ApprovalState = Literal["waiting", "approved", "denied", "revoked"]


class VaultAsk(msgspec.Struct, frozen=True, omit_defaults=True):
    """Ask that the raw tokens of a tenant, or of one ``agent`` of it, be kept for the trainer, a trajectory's for ``days``."""

    tenant: str
    days: float
    reason: str
    agent: str = ""


class VaultWord(msgspec.Struct, frozen=True):
    """Why somebody approves, denies or revokes."""

    reason: str


class VaultApproval(msgspec.Struct, frozen=True):
    """A request and what became of it. ``num_keys`` are the trajectories whose raw tokens can be read under it right now."""

    tenant: str
    approval_id: str
    agent: str
    days: float
    reason: str
    state: ApprovalState
    asked_by: str
    decided_by: str
    created_us: int
    decided_us: int | None
    num_keys: int = 0


class VaultRevoked(msgspec.Struct, frozen=True):
    """What a revocation did: keys that are destroyed, and those that a legal hold keeps, which nobody is handed any more."""

    approval: VaultApproval
    destroyed: int
    held: int


class ReviewRow(msgspec.Struct, frozen=True):
    """An event whose redaction somebody should look at. ``spans`` are those to judge: of a sample all, else the uncertain ones."""

    tenant: str
    event_id: str
    agent: str
    trajectory_id: str
    started_us: int
    why: str
    spans: list[Span]


class ReviewPage(msgspec.Struct, frozen=True):
    """Newest first; ``next_after`` is the cursor of the next page, None at the end. A page may hold fewer than were asked for."""

    rows: list[ReviewRow]
    next_after: str | None


class ReviewMark(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a reviewer says of an event's redaction.

    ``right``: as it should be. ``missed``: something of ``kind`` was left in; a ``pattern``, or one made of the shape of ``value``,
    becomes a rule. ``false``: the span at ``path``, ``start`` was nobody's; its ``value``, if known, may stay from now on.
    """

    verdict: Literal["right", "missed", "false"]
    kind: str = ""
    value: str = ""
    pattern: str = ""
    path: str = ""
    start: int = 0
    surrogate: str = ""
    reason: str = ""


class ReviewMarked(msgspec.Struct, frozen=True):
    """``policy`` is the number of the redaction policy that came of it, None if none did. ``elsewhere`` are other events that say a
    missed value, or in which something fits a missed pattern; ``more``: not all could be looked at.
    """

    mark_id: str
    policy: int | None
    elsewhere: list[str]
    more: bool

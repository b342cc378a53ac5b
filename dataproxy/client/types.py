"""What travels over the data proxy's socket, beside the types of ``atdp``. Made and read by its API and its clients.

Times are UTC µs. JSON everywhere but for leases, which are msgpack.
"""

from typing import Annotated, Any, Literal

import msgspec

from atdp.events import Event, Span, TokenRecord
from atdp.rewards import Reward
from dataproxy.client.watch_types import Alarm

Role = Literal["agent", "reviewer", "trainer", "gateway", "admin"]
Outcome = Literal["trained", "returned"]


Limit = Annotated[int, msgspec.Meta(ge=1)] | None


class KeyLimits(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a key may use; None: no limit. ``used_tokens`` is told, never set: tokens of all exchanges drained so far."""

    max_concurrency: Limit = None
    requests_per_minute: Limit = None
    tokens_per_minute: Limit = None
    budget_tokens: Limit = None
    used_tokens: int = 0


class KeyRow(msgspec.Struct, frozen=True):
    """One key as the gateway's cache needs it: ``key_hash`` is the SHA-256 (hex) of the whole key, which is not kept.

    ``limits`` is None for a key without any, and holds ``used_tokens`` with a budget only: so the table changes seldom.
    ``unrecorded``: where a call of it cannot be recorded, it is served all the same. ``pseudonymize``: models see surrogates.
    """

    key_hash: str
    key_id: str
    tenant: str
    agent: str
    role: Role
    models: list[str]
    record: bool
    revoked: bool
    expires_us: int | None
    limits: KeyLimits | None = None
    unrecorded: bool = False
    pseudonymize: bool = False


class NewKey(msgspec.Struct, frozen=True):
    """Ask for a key. No models: all of them."""

    tenant: str
    agent: str
    role: Role
    models: list[str] = []
    expires_us: int | None = None
    limits: KeyLimits = KeyLimits()


class IssuedKey(msgspec.Struct, frozen=True):
    """A new key, shown this once."""

    key_id: str
    key: str


class KeyInfo(msgspec.Struct, frozen=True):
    """A key as people see it in a list."""

    key_id: str
    tenant: str
    agent: str
    role: Role
    models: list[str]
    created_us: int
    expires_us: int | None
    revoked_us: int | None
    limits: KeyLimits = KeyLimits()


class Consent(msgspec.Struct, frozen=True, omit_defaults=True):
    """Consent to record and to train, for a tenant, one agent of it ("": all agents), or one session of that agent ("": all).

    The latest row of the narrowest scope holds. ``key_id`` is whose word it is, whatever the sender says.
    """

    tenant: str
    recording: bool
    training: bool
    reason: str
    agent: str = ""
    created_us: int = 0
    session_id: str = ""
    key_id: str = ""


class RecordingPolicy(msgspec.Struct, frozen=True, omit_defaults=True):
    """Whether a tenant's calls are served, ``unrecorded``, while they cannot be recorded; else they are refused.

    The latest holds.
    """

    tenant: str
    unrecorded: bool
    reason: str
    created_us: int = 0


class RedactionSet(msgspec.Struct, frozen=True):
    """A redaction policy to be put on record, as JSON (docs/redaction.md), for ``tenant`` or the caller's own."""

    policy: dict[str, Any]
    reason: str
    tenant: str = ""


class RedactionShown(msgspec.Struct, frozen=True):
    """A tenant's redaction policy and its number; 0: the built-in rules alone."""

    tenant: str
    number: int
    policy: dict[str, Any]


class RedactionTest(msgspec.Struct, frozen=True, omit_defaults=True):
    """A text to try redaction on, under ``policy`` or, without one, under that which holds."""

    text: str
    tenant: str = ""
    policy: dict[str, Any] | None = None


class RedactionTried(msgspec.Struct, frozen=True):
    """What became of the text, and where surrogates stand in it."""

    text: str
    spans: list[Span]


class Quarantined(msgspec.Struct, frozen=True):
    """A row of the quarantine: whose it is, why it is there, and whether its exchange was ``stored`` since."""

    tenant: str
    event_id: str
    reason: str
    created_us: int
    size_bytes: int
    stored: bool


class QuarantineOpened(msgspec.Struct, frozen=True):
    """What may be said of a quarantined exchange. ``reason_now``: why it could not be governed now either; "" if it could."""

    event_id: str
    agent: str
    dialect: str
    request_bytes: int
    answer_bytes: int
    record_bytes: int
    status: int
    delivery: str
    worker: str
    stored: bool
    reason_now: str


class QuarantineRetry(msgspec.Struct, frozen=True, omit_defaults=True):
    """Which rows to try again: these, or, if none is named, the newest of one ``reason`` or of any."""

    event_ids: list[str] = []
    reason: str = ""


class QuarantineRetried(msgspec.Struct, frozen=True):
    """What came of it: the events that are ``stored`` now, and the reason of each that ``failed`` again."""

    stored: list[str]
    failed: dict[str, str]


class Gap(msgspec.Struct, frozen=True):
    """``num_calls`` of one key between ``first_us`` and ``last_us`` were served and not recorded, for ``reason``.

    Made by gateways.
    """

    gap_id: str
    tenant: str
    agent: str
    key_id: str
    reason: str
    num_calls: int
    first_us: int
    last_us: int


class Feedback(msgspec.Struct, frozen=True, omit_defaults=True):
    """A reward, label or correction for a completion, event, trajectory or session id.

    One of value, label, correction is needed. ``choice``: for that one of a call's answers alone, of several (n > 1).
    """

    target: str
    value: float | None = None
    label: str | None = None
    correction: str | None = None
    name: str = "reward"
    source: str = "user"
    explanation: str | None = None
    idempotency_key: str | None = None
    supersedes: str | None = None
    choice: int | None = None


class FeedbackReceipt(msgspec.Struct, frozen=True):
    """What became of it: stored, or pending until the exchange that it rewards is drained."""

    reward_id: str
    target_kind: str
    target_id: str
    status: Literal["stored", "pending"]


class LeaseRequest(msgspec.Struct, frozen=True, omit_defaults=True):
    """Ask for trajectories to train on.

    ``version_now`` is the trainer's head; tokens sampled more than ``max_staleness`` versions earlier are left out, and so are
    trajectories already trained ``max_reuse`` times. Fewer than ``min_trajectories`` ready: an empty lease. ``preview``: show what
    would be lent, and lend nothing.
    """

    max_trajectories: int
    ttl_s: float
    version_now: str
    max_staleness: int
    max_reuse: int
    min_trajectories: int = 1
    agent: str | None = None
    tenant: str | None = None
    preview: bool = False


class LeaseAck(msgspec.Struct, frozen=True, omit_defaults=True):
    """The end of a lease. ``skipped`` maps trajectories that were left out at consumption to the reason; they return."""

    outcome: Outcome
    version: str | None = None
    trained: list[str] = []
    skipped: dict[str, str] = {}


class VersionRewards(msgspec.Struct, frozen=True):
    """Rewarded trajectories whose last sampled token came from ``version``: how many, and their mean effective reward."""

    version: str
    num: int
    mean: float


class EventPage(msgspec.Struct, frozen=True):
    """Events in the order they were stored; ``next_after`` is the cursor of the next page, None at the end."""

    events: list[Event]
    next_after: int | None


class EventDetail(msgspec.Struct, frozen=True):
    """One event with its token records (masked); ``decisions`` maps a choice to "eligible" or the reason against."""

    event: Event
    tokens: list[TokenRecord]
    decisions: dict[int, str] = {}


class TrajectoryDetail(msgspec.Struct, frozen=True):
    """A trajectory as a reviewer sees it: its events, its effective reward, and why it may or may not be trained on.

    ``place`` says how far it is (trained, ready, settling, window_open, …); ``left_out`` why each choice that is context only is;
    ``cut_and_extended`` those that were cut by length and gone on from all the same.
    """

    trajectory_id: str
    session_id: str
    events: list[Event]
    reward: float | None
    eligible: bool
    reason: str
    trained_by: list[str]
    rewards: list[Reward] = []
    place: str = ""
    left_out: dict[str, str] = {}
    cut_and_extended: list[str] = []


class Status(msgspec.Struct, frozen=True):
    """Counts for ``headrace status``. ``journal_backlog`` is bytes not yet drained; ``leases`` counts open ones.

    ``redactions`` counts values taken out of events, by kind; a message that is resent every turn counts each time. ``spend`` is
    what external models cost so far, in US dollars, by key id. ``places`` counts trajectories by how far they are; ``judgements``
    counts turns by what became of asking a judge, which cost ``judge_usd``. ``alarms`` are all rules about learning, firing or not.
    """

    events: int
    journal_backlog: int
    redactions: dict[str, int]
    trainable: int
    not_trainable: dict[str, int]
    trajectories: int
    rewards: int
    pending_rewards: int
    leases: int
    trained: int
    quarantine: dict[str, int]
    versions: int
    serving: str | None
    spend: dict[str, float] = {}
    places: dict[str, int] = {}
    dead_letters: int = 0
    judgements: dict[str, int] = {}
    judge_usd: float = 0.0
    alarms: list[Alarm] = []


class TenantImported(msgspec.Struct, frozen=True):
    """What came in with a tenant's file; ``signer`` is the public key (hex) of the store that it comes from."""

    tenant: str
    num_rows: int
    signer: str

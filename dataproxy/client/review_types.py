"""What a reviewer asks and is answered: audits, reads on record, erasure, holds, retention."""

import msgspec


class AuditProblem(msgspec.Struct, frozen=True):
    """A row that is not what its log says; ``table`` may be the checkpoints file."""

    tenant: str
    table: str
    key: str
    what: str


class AuditProgress(msgspec.Struct, frozen=True, tag="progress"):
    """Leaves checked so far, of how many in all."""

    tenant: str
    done: int
    total: int


class AuditReport(msgspec.Struct, frozen=True, tag="report"):
    """The end of an audit: counts, and the first of its problems in the order of the log.

    ``witnessed``: where witnesses were asked for, "<tenant> <witness>" → leaves of the largest checkpoint that it cosigned.
    """

    ok: bool
    tenants: int
    leaves: int
    erased: int
    checkpoints: int
    problems: list[AuditProblem]
    num_problems: int
    witnessed: dict[str, int] = {}


class CosignatureAdded(msgspec.Struct, frozen=True):
    """A cosignature to be kept: the ``line`` that the witness gave, and its verifier ``key``."""

    tenant: str
    key: str
    line: str


class CosignatureKept(msgspec.Struct, frozen=True):
    """Of which checkpoint it is, and when it was signed (POSIX seconds)."""

    tenant: str
    size: int
    witness: str
    signed_s: int


class LegalHold(msgspec.Struct, frozen=True, omit_defaults=True):
    """What must not be erased, expire or train: a tenant, or an agent, session, trajectory or subject of it (``target``)."""

    tenant: str
    scope: str
    target: str
    reason: str
    hold_id: str = ""
    key_id: str = ""
    created_us: int = 0
    released_us: int | None = None


class ErasureRequest(msgspec.Struct, frozen=True, omit_defaults=True):
    """Erase a ``subject`` (the ``user`` that the agent sent, or its pseudonym), a ``session`` or a ``trajectory``.

    ``dry_run``: only say what that would do.
    """

    tenant: str
    scope: str
    target: str
    reason: str
    dry_run: bool = False


class Erasure(msgspec.Struct, frozen=True, omit_defaults=True):
    """What was erased, or would be. ``contents_kept`` are texts that other trajectories refer to.

    ``trained_versions`` learned from it before, ``vaulted_versions`` of them from its raw tokens; ``leased`` trajectories are in a
    trainer's hands right now. ``target`` is the name in the store: of a subject its pseudonym. ``purged``: no file of a
    table holds it any more; False while a reader keeps old pages, or where PostgreSQL's owner is not known.
    """

    erasure_id: str
    tenant: str
    scope: str
    target: str
    reason: str
    erased_us: int
    trajectories: list[str]
    events: int
    token_segments: int
    contents_erased: int
    contents_kept: int
    rewards_blanked: int
    trained_versions: list[str]
    leased: list[str] = []
    vaulted_versions: list[str] = []
    dry_run: bool = False
    purged: bool = False


class Retention(msgspec.Struct, frozen=True, omit_defaults=True):
    """How long what an agent's traffic left is kept ("": of all agents): ``days`` after a trajectory's last event.

    None: until it is erased. The latest word of the narrowest scope holds. ``key_id`` is whose word it is.
    """

    tenant: str
    name: str
    days: float | None
    reason: str
    agent: str = ""
    created_us: int = 0
    key_id: str = ""


NO_PURPOSE, OWN_PURPOSE = "no purpose given", "the system's own"
"""What stands where no purpose is on record: for somebody's read, and for one by a program of Headrace with a key of its own."""
_OWN_KEYS = ("internal-trainer-", "internal-gateway-")


class AccessRow(msgspec.Struct, frozen=True):
    """One read: which key, in which role, of what and which of it, why (``purpose`` as given, ``why`` in words), and when."""

    tenant: str
    event_id: str
    key_id: str
    role: str
    what: str
    target: str
    purpose: str
    at_us: int

    @property
    def why(self) -> str:
        """The purpose; where none is on record, that."""
        return self.purpose.strip() or (OWN_PURPOSE if self.key_id.startswith(_OWN_KEYS) else NO_PURPOSE)


class AccessPage(msgspec.Struct, frozen=True):
    """Reads, oldest first; ``next_after`` is the cursor of the next page, None at the end."""

    rows: list[AccessRow]
    next_after: str | None


class HoldRelease(msgspec.Struct, frozen=True):
    """Why a hold ends."""

    reason: str


class SearchRequest(msgspec.Struct, frozen=True):
    """What to find; None: any. ``text`` in any string of an event, whatever its case. Times are UTC µs, of the start."""

    text: str = ""
    kind: str | None = None
    agent: str | None = None
    session: str | None = None
    since_us: int | None = None
    until_us: int | None = None
    after: int = 0
    limit: int = 50

"""Lists of trajectories and of the quarantine. Made by the API, read by the console and by reviewers. Times are UTC µs."""

import msgspec


class TrajectoryQuery(msgspec.Struct, frozen=True, omit_defaults=True):
    """What to list; None or "": any. ``text`` in any string of an event, whatever its case; times are of the start.

    ``version`` is the policy version of the last sampled token, ``kind`` one of a redacted value, ``reason`` one of a decision
    ("eligible", or the reason against), ``outcome`` "error" or "ok". ``rewarded``: whether it has a reward at all. ``eligible``:
    whether anything of it may train. ``tool`` was called in it; ``release`` is one that it ran under. ``error`` is an HTTP status
    ("429"), how a delivery ended ("disconnected"), or "tool": a tool failed. ``lane`` served it: stable, canary, or mixed.
    """

    text: str = ""
    agent: str | None = None
    session: str | None = None
    since_us: int | None = None
    until_us: int | None = None
    model: str | None = None
    version: str | None = None
    kind: str | None = None
    reason: str | None = None
    outcome: str | None = None
    rewarded: bool | None = None
    min_reward: float | None = None
    max_reward: float | None = None
    eligible: bool | None = None
    tool: str | None = None
    release: str | None = None
    error: str | None = None
    lane: str | None = None


class TrajectoryRow(msgspec.Struct, frozen=True):
    """One trajectory in a list. ``opening`` is the beginning of what was first said to the agent, redacted.

    ``redactions`` counts redacted values of its events by kind, ``reasons`` choices by what was decided about training.
    """

    tenant: str
    trajectory_id: str
    agent: str
    session_id: str
    started_us: int
    last_us: int
    num_events: int
    reward: float | None
    version: str | None
    models: list[str]
    reasons: dict[str, int]
    redactions: dict[str, int]
    times_trained: int
    num_errors: int
    opening: str


class TrajectoryPage(msgspec.Struct, frozen=True):
    """Trajectories, newest start first; ``next_after`` is the cursor of what comes next, None at the end.

    ``looked_back_to_us``: where the question was too wide for one page, the start of the last one that was looked at.
    """

    rows: list[TrajectoryRow]
    next_after: str | None
    looked_back_to_us: int | None = None


class QuarantineRow(msgspec.Struct, frozen=True):
    """An exchange that could not be made an event: when, and why, and whether it was stored since. What it said stays sealed."""

    tenant: str
    event_id: str
    reason: str
    created_us: int
    size_bytes: int
    stored: bool


class QuarantinePage(msgspec.Struct, frozen=True):
    """The quarantine, newest first; ``next_after`` is the cursor of the next page, None at the end."""

    rows: list[QuarantineRow]
    next_after: str | None


class SavedView(msgspec.Struct, frozen=True, omit_defaults=True):
    """A question about trajectories under a name, for everybody of its tenant. The store sets what has a default."""

    title: str
    query: TrajectoryQuery
    view_id: str = ""
    key_id: str = ""
    created_us: int = 0


class TenantRow(msgspec.Struct, frozen=True):
    """A tenant in a list: valid keys, agents that were recorded, trajectories, legal holds in force.

    ``newest_us`` is the start of its newest trajectory; ``may_train``: consent to train holds for the whole of it.
    """

    tenant: str
    keys: int
    agents: int
    trajectories: int
    newest_us: int | None
    holds: int
    may_train: bool

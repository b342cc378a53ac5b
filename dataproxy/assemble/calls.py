"""What placing a call needs to know of it, and of the calls before it."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(slots=True, frozen=True)
class NewCall:
    """A call that is about to be stored.

    ``session_id`` is "" where the agent named none; ``prefixes`` are the conversation digests of its messages up to each earlier
    answer, longest first; ``token_prefixes`` those of its prompt's ids; ``continues`` is the event that the agent named as the one
    before; ``ends`` maps a choice to the conversation digest with that answer; ``prompt_ids`` [P] are raw, or None;
    ``borders`` maps a choice to (length in tokens, digest) of its prompt and output. Versions are indices, −1 for none. ``lane`` is
    that of the worker that answered, "" where none did. ``group`` names the task that several sessions attempt, ``group_size`` how
    many will; "" and 0 where the caller does not say.
    """

    tenant: str
    agent: str
    event_id: str
    session_id: str
    session_source: str
    routing_name: str
    started_us: int
    ended_us: int
    prefixes: list[bytes]
    token_prefixes: list[bytes]
    continues: str
    ends: dict[int, bytes]
    prompt_ids: NDArray[np.int32] | None
    borders: dict[int, tuple[int, bytes]]
    num_eligible: int
    last_version: int
    newest_version: int
    retry_of: str | None = None
    lane: str = ""
    group: str = ""
    group_size: int = 0


@dataclass(slots=True)
class End:
    """A stored answer that a later call may continue."""

    event_id: str
    choice: int
    session_id: str
    trajectory_id: str
    num_extended: int
    order: int


@dataclass(slots=True)
class Trajectory:
    """A trajectory's row as placement sees it; ``closed`` once it was leased: later calls open another.

    ``ended`` once a terminal reward or its session's end came: a new conversation opens another. ``lane``: whose workers served it,
    "mixed" if those of both did, "" if nobody's did yet. ``group``: the task that it is an attempt at.
    """

    trajectory_id: str
    session_id: str
    last_us: int
    num_events: int
    ended: bool
    closed: bool
    num_eligible: int = 0
    last_version: int = -1
    newest_version: int = -1
    lane: str = ""
    group: str = ""
    group_size: int = 0

    def attempt(self, group: str, size: int) -> None:
        """A call of it says that it is an attempt at the task of ``group``; the first that says so holds."""
        self.group = self.group or group
        if group == self.group:
            self.group_size = max(self.group_size, size)

    def serve_in(self, lane: str) -> None:
        """A worker of ``lane`` served a call of it; "" says nothing."""
        if lane and lane != self.lane:
            self.lane = "mixed" if self.lane else lane


@dataclass(slots=True, frozen=True)
class Border:
    """Where a stored choice ends: its length in tokens, prompt included, and the digest of those ids."""

    event_id: str
    choice: int
    length: int
    digest: bytes


@dataclass(slots=True, frozen=True)
class Placement:
    """Where a call belongs. ``token_parent`` is the choice whose prompt and output its own prompt starts with, exactly."""

    session_id: str
    trajectory_id: str
    seq: int
    parent_id: str | None
    token_parent: tuple[str, int] | None
    opens_session: bool
    opens_trajectory: bool

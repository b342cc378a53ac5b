"""Places calls: session, trajectory, parent. A call that fits nowhere opens a conversation; nothing here is ever an error.

The conversation is found by the answer that the agent names, by its messages (they hold even where a template renders history
anew), or by the exact ids that its prompt starts with (they hold even where an agent echoes a turn in words of its own); tokens are
joined by exact ids alone.
State is an index of what is stored, kept up to date as calls are placed, so that one batch may hold a whole conversation.
"""

from typing import Protocol

from dataproxy.assemble.borders import token_digests
from dataproxy.assemble.calls import Border, End, NewCall, Placement, Trajectory
from dataproxy.digests import KeyedDigests


class Index(Protocol):
    """What is known of earlier calls; kept by the store (``dataproxy.store.conversations``)."""

    def ends(self, tenant: str, agent: str, digest: bytes) -> list[End]:
        """The stored answers at which the conversation ``digest`` ends."""

    def token_ends(self, tenant: str, agent: str, digest: bytes) -> list[End]:
        """The stored answers whose prompt and output ids have ``digest``."""

    def end_of(self, tenant: str, agent: str, event_id: str) -> End | None:
        """The first answer of a stored event."""

    def trajectory(self, tenant: str, trajectory_id: str) -> Trajectory:
        """A stored trajectory."""

    def latest_trajectory(self, tenant: str, agent: str, session_id: str) -> Trajectory | None:
        """The one of this session with the latest call."""

    def trajectory_of(self, tenant: str, event_id: str) -> Trajectory | None:
        """The trajectory that holds ``event_id``."""

    def borders(self, tenant: str, trajectory_id: str) -> list[Border]:
        """The ends of all choices of a trajectory, in order."""

    def record(self, call: NewCall, placement: Placement, parent: End | None) -> None:
        """``call`` was placed."""


def place(index: Index, digests: KeyedDigests, call: NewCall, idle_us: int) -> Placement:
    """Where ``call`` belongs; the index knows it afterwards.

    Under a session that the agent named, a call that continues nothing joins the open trajectory (a sub-agent, a compacted history)
    unless that was idle for ``idle_us``, has ended, or attempts another group's task.
    """
    parent = _named_parent(index, call) or _conversation_parent(index, digests, call) or _token_end(index, call)
    trajectory = _trajectory(index, call, parent, idle_us)
    session_id = call.session_id or (parent.session_id if parent else "") or (trajectory.session_id if trajectory else "")
    known = bool(session_id) and (parent is not None or index.latest_trajectory(call.tenant, call.agent, session_id) is not None)
    placement = Placement(
        session_id=session_id or f"s-{call.event_id}",
        trajectory_id=trajectory.trajectory_id if trajectory else f"tr-{call.event_id}",
        seq=trajectory.num_events if trajectory else 0,
        parent_id=parent.event_id if parent else call.retry_of,
        token_parent=_token_parent(index, digests, call, trajectory, parent),
        opens_session=not known and trajectory is None,
        opens_trajectory=trajectory is None,
    )
    index.record(call, placement, parent)
    return placement


def _named_parent(index: Index, call: NewCall) -> End | None:
    """The answer that the agent says it continues; the engine put that conversation before the prompt."""
    end = index.end_of(call.tenant, call.agent, call.continues) if call.continues else None
    return end if end is not None and _may_join(call, end) else None


def _conversation_parent(index: Index, digests: KeyedDigests, call: NewCall) -> End | None:
    """The deepest stored answer that the call's messages continue.

    Of equal ones, one whose ids its prompt starts with, then the latest that nobody extended.
    """
    for digest in call.prefixes:
        ends = [end for end in index.ends(call.tenant, call.agent, digest) if _may_join(call, end)]
        if len(ends) > 1:
            exact = [end for end in ends if _continues_exactly(index, digests, call, end)]
            ends = exact or ends
        if ends:
            return min(ends, key=lambda end: (end.num_extended, -end.order))
    return None


def _token_end(index: Index, call: NewCall) -> End | None:
    """The deepest stored answer with whose exact ids, prompt included, the call's prompt starts."""
    for digest in call.token_prefixes:
        ends = [end for end in index.token_ends(call.tenant, call.agent, digest) if _may_join(call, end)]
        if ends:
            return min(ends, key=lambda end: (end.num_extended, -end.order))
    return None


def _may_join(call: NewCall, end: End) -> bool:
    return call.session_id in ("", end.session_id)


def _continues_exactly(index: Index, digests: KeyedDigests, call: NewCall, end: End) -> bool:
    if call.prompt_ids is None:
        return False
    borders = index.borders(call.tenant, end.trajectory_id)
    border = next((b for b in borders if (b.event_id, b.choice) == (end.event_id, end.choice)), None)
    return border is not None and token_digests(digests, call.prompt_ids, [border.length]).get(border.length) == border.digest


def _trajectory(index: Index, call: NewCall, parent: End | None, idle_us: int) -> Trajectory | None:
    if parent is not None:
        trajectory = index.trajectory(call.tenant, parent.trajectory_id)
        return None if trajectory.closed else trajectory
    if call.retry_of is not None and (retried := index.trajectory_of(call.tenant, call.retry_of)) is not None:
        return None if retried.closed else retried
    if not call.session_id:
        return None
    latest = index.latest_trajectory(call.tenant, call.agent, call.session_id)
    if latest is None or latest.closed or latest.ended or call.started_us - latest.last_us > idle_us:
        return None
    return None if call.group and latest.group and call.group != latest.group else latest


def _token_parent(
    index: Index, digests: KeyedDigests, call: NewCall, trajectory: Trajectory | None, parent: End | None
) -> tuple[str, int] | None:
    if call.prompt_ids is None or trajectory is None:
        return None
    borders = index.borders(call.tenant, trajectory.trajectory_id)
    mine = token_digests(digests, call.prompt_ids, (border.length for border in borders))
    joined = [border for border in borders if mine.get(border.length) == border.digest]
    if not joined:
        return None
    longest = max(border.length for border in joined)
    deepest = [border for border in joined if border.length == longest]
    wanted = (parent.event_id, parent.choice) if parent else None
    best = next((border for border in deepest if (border.event_id, border.choice) == wanted), deepest[-1])
    return best.event_id, best.choice

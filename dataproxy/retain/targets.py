"""What an erasure or a hold is about: a subject, a session or a trajectory, and the rows that belong to it.

A person's words are repeated by every later turn of a conversation, so whoever occurs in a trajectory takes all of it with them.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from sqlalchemy import Connection, Select, or_, select

from dataproxy.digests import KeyedDigests
from dataproxy.errors import NotFound, Refused
from dataproxy.store.schema import event, session, tombstone, trajectory

Scope = Literal["subject", "session", "trajectory"]
_CHUNK = 500


@dataclass(slots=True, frozen=True)
class Target:
    """``name`` is the store's own: a subject's pseudonym, a session's id, a trajectory's; or of retention the class, and which."""

    tenant: str
    scope: Scope | Literal["retention"]
    name: str
    trajectories: tuple[str, ...] = ()


@dataclass(slots=True)
class Belongings:
    """What belongs to a target; ``events`` without those that are erased already."""

    trajectories: list[str] = field(default_factory=list)
    sessions: list[str] = field(default_factory=list)
    subjects: list[str] = field(default_factory=list)
    agents: list[str] = field(default_factory=list)
    events: list[str] = field(default_factory=list)


def resolve(connection: Connection, tenant: str, scope: str, given: str, digests: KeyedDigests) -> Target:
    """The target that a person means by ``given``: the ``user`` that an agent sent, a session's name, or an id.

    Raises:
        Refused: there is no such scope.
        NotFound: this tenant has nothing of that name.
    """
    if scope not in get_args(Scope) or not given:
        raise Refused(f"say one of {', '.join(get_args(Scope))}, and which")
    for name in _names(scope, given, digests):
        target = Target(tenant, scope, name)  # type: ignore[arg-type]
        if connection.execute(_events_named(target).limit(1)).first() is not None:
            return target
    raise NotFound(f"tenant {tenant} has no {scope} {given!r} on record")


def belongings(connection: Connection, target: Target) -> Belongings:
    """All that belongs to ``target``."""
    found = Belongings()
    rows = connection.execute(_events_named(target)).all()
    found.trajectories = sorted({row.trajectory_id for row in rows if row.trajectory_id})
    ids = {row.event_id: row for row in rows}
    for chunk in chunks(found.trajectories):
        where = (event.c.tenant == target.tenant, event.c.trajectory_id.in_(chunk))
        ids |= {row.event_id: row for row in connection.execute(_columns().where(*where))}
    found.sessions = sorted({row.session_id for row in ids.values() if row.session_id})
    found.subjects = sorted({row.subject for row in ids.values() if row.subject})
    found.agents = sorted({row.agent for row in ids.values()})
    erased: set[str] = set()
    for chunk in chunks(sorted(ids)):
        stones = (tombstone.c.tenant == target.tenant, tombstone.c.kind == "event", tombstone.c.row_key.in_(chunk))
        erased.update(connection.execute(select(tombstone.c.row_key).where(*stones)).scalars())
    found.events = sorted(ids.keys() - erased)
    return found


def chunks(items: Sequence[Any]) -> Iterator[Sequence[Any]]:
    """``items`` in pieces that a query takes."""
    return (items[start : start + _CHUNK] for start in range(0, len(items), _CHUNK))


def known_session(connection: Connection, tenant: str, given: str, digests: KeyedDigests) -> str:
    """The id of a session that an agent or a person calls ``given``.

    Raises:
        NotFound: there is none.
    """
    names = _names("session", given, digests)
    query = select(session.c.session_id).where(session.c.tenant == tenant, session.c.session_id.in_(names))
    if (found := connection.execute(query).scalar()) is None:
        raise NotFound(f"tenant {tenant} has no session {given!r}; `headrace audit list` shows its sessions")
    return str(found)


def _names(scope: str, given: str, digests: KeyedDigests) -> list[str]:
    if scope == "subject":
        return [digests.of(b"subject", given.encode()).hex(), given]
    if scope == "session":
        return [given, f"digest-{digests.of(b'session', given.encode()).hex()}"]
    return [given]


def _columns() -> Select[Any]:
    return select(event.c.event_id, event.c.trajectory_id, event.c.session_id, event.c.subject, event.c.agent)


def _events_named(target: Target) -> Select[Any]:
    if target.scope == "retention":
        return _columns().where(event.c.tenant == target.tenant, event.c.trajectory_id.in_(target.trajectories))
    column = {"subject": event.c.subject, "session": event.c.session_id, "trajectory": event.c.trajectory_id}[target.scope]
    named = column == target.name
    if target.scope == "session":
        ids = select(trajectory.c.trajectory_id).where(trajectory.c.tenant == target.tenant, trajectory.c.session_id == target.name)
        named = or_(named, event.c.trajectory_id.in_(ids))
    return _columns().where(event.c.tenant == target.tenant, named, event.c.kind.not_in(("access", "erasure")))

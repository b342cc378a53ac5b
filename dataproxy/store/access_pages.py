"""Who read what: the log in its own order for audits, and newest first for people."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Connection, Select, select

from dataproxy.client.review_types import AccessPage, AccessRow
from dataproxy.store.access import What
from dataproxy.store.schema import access_log, event, lease, lease_item, log_head, trajectory

_OF_TRAJECTORY = (trajectory.c.tenant, trajectory.c.trajectory_id, trajectory.c.session_id, trajectory.c.started_us)
_MOST_TURNS = 10_000
MOST_READS = 5000
"""Reads looked at for one page."""
_SLACK_US = 300_000_000
"""An id says the time to about that: it is made when a read is written, and clocks are set."""
_MANY: tuple[What, ...] = (
    *("batch", "evidence", "events", "export of events", "export of trajectories", "review", "search", "tenant export"),
    *("trajectories", "version"),
)
"""Reads of more than one thing: what was seen follows from what was asked for, and is not named."""


@dataclass(slots=True, frozen=True)
class Lending:
    """A trajectory lent to a trainer: when (µs), by which lease, to which key."""

    at_us: int
    lease_id: str
    key_id: str


@dataclass(slots=True, frozen=True)
class Named:
    """What reads of one thing are named by in the log, its `trajectories`, whose they are, and when it began (µs; 0: not known)."""

    names: frozenset[str]
    trajectories: frozenset[str]
    owners: frozenset[str]
    since_us: int


@dataclass(slots=True, frozen=True)
class ReadQuery:
    """Which reads: by the key ``reader``, not by ``not_by``, of a kind ``what``, ``names`` of what was read (None: of anything).

    "" is any. ``purpose`` is found in what the list says of why, whatever its case. From ``since_us`` on, before ``until_us``.
    """

    reader: str = ""
    what: str = ""
    names: frozenset[str] | None = None
    purpose: str = ""
    since_us: int | None = None
    until_us: int | None = None
    not_by: str = ""

    def fits(self, row: AccessRow) -> bool:
        """What no index answers."""
        return (
            self.what in ("", row.what)
            and self.purpose.casefold() in row.why.casefold()
            and (self.since_us is None or row.at_us >= self.since_us)
            and (self.until_us is None or row.at_us < self.until_us)
            and row.key_id != self.not_by
        )


@dataclass(slots=True, frozen=True)
class ReadsPage:
    """Reads, newest first; ``next_before`` is the cursor of the next page, None at the end.

    ``looked_back_to_us``: not all were looked at for this page, only those since then.
    """

    rows: list[AccessRow]
    next_before: str | None
    looked_back_to_us: int | None = None


def named(connection: Connection, tenant: str | None, target: str, sessions: Sequence[str]) -> Named:
    """Of ``target``, a trajectory, a session or a turn: a trajectory is read as itself, in evidence, and by its turns.

    A turn is read with its trajectory; a session by its trajectories. ``sessions`` are the names in the store of a session that
    is called so. Of a trajectory's turns the first ten thousand count.
    """
    owners = [tenant] if tenant is not None else connection.execute(select(log_head.c.tenant)).scalars().all()
    of_turn = connection.execute(
        select(event.c.trajectory_id).where(event.c.event_id == target, event.c.tenant.in_(owners))
    ).scalar()
    of_session = select(*_OF_TRAJECTORY).where(trajectory.c.tenant.in_(owners), trajectory.c.session_id.in_(sessions))
    of_itself = select(*_OF_TRAJECTORY).where(trajectory.c.tenant.in_(owners), trajectory.c.trajectory_id == (of_turn or target))
    rows = [*connection.execute(of_itself), *connection.execute(of_session)]
    names = {target, f"session:{target}", *sessions}
    for row in rows:
        names |= {row.trajectory_id, f"trajectory:{row.trajectory_id}", row.session_id, f"session:{row.session_id}"}
        if of_turn is None:  # the reads of a turn are not those of its neighbours
            turns = select(event.c.event_id).where(event.c.tenant == row.tenant, event.c.trajectory_id == row.trajectory_id)
            names |= set(connection.execute(turns.order_by(event.c.seq).limit(_MOST_TURNS)).scalars())
    since_us = min((row.started_us for row in rows), default=0)
    return Named(frozenset(names), frozenset(row.trajectory_id for row in rows), frozenset(row.tenant for row in rows), since_us)


def page_of_reads(connection: Connection, tenant: str | None, wanted: ReadQuery, before: str, limit: int) -> ReadsPage:
    """Reads of ``tenant``'s things (None: of anybody's) before event ``before`` ("": the newest); ``MOST_READS`` are looked at."""
    query = _within(select(access_log).order_by(access_log.c.event_id.desc()).limit(MOST_READS), access_log.c.tenant, tenant)
    if before:
        query = query.where(access_log.c.event_id < before)
    if wanted.names is not None:
        query = query.where(access_log.c.target.in_(list(wanted.names)))
    if wanted.reader:
        query = query.where(access_log.c.key_id == wanted.reader)
    if wanted.since_us is not None:
        query = query.where(access_log.c.event_id >= _ids_from(wanted.since_us - _SLACK_US))
    if wanted.until_us is not None:
        query = query.where(access_log.c.event_id < _ids_from(wanted.until_us + _SLACK_US))
    rows: list[AccessRow] = []
    last: AccessRow | None = None
    num = 0
    with connection.execute(query.execution_options(yield_per=limit)) as result:
        for found in result:
            num, last = num + 1, AccessRow(**found._mapping)
            if wanted.fits(last):
                rows.append(last)
            if len(rows) == limit:
                return ReadsPage(rows, last.event_id)
    if last is None or num < MOST_READS:
        return ReadsPage(rows, None)
    return ReadsPage(rows, last.event_id, last.at_us)


def _ids_from(time_us: int) -> str:
    """What the ids of events made from then on do not lie before: they begin with their time (see ``new_event_id``)."""
    return f"{min(max(time_us // 1000, 0), (1 << 48) - 1):012x}"


def reads_of_many(connection: Connection, tenant: str | None, what: Named, not_by: str, limit: int) -> Sequence[AccessRow]:
    """The newest reads that may have held it without naming it: lists, searches, exports, evidence, since it began.

    Those by the key ``not_by`` are left out.
    """
    query = select(access_log).where(access_log.c.what.in_(_MANY), access_log.c.at_us >= what.since_us)
    query = query.where(access_log.c.key_id != not_by)
    query = query.where(access_log.c.target.not_in(list(what.names))).order_by(access_log.c.event_id.desc()).limit(limit)
    return _page(connection, _within(query, access_log.c.tenant, tenant), limit).rows


def lendings(connection: Connection, what: Named, limit: int) -> list[Lending]:
    """The newest leases by which a trainer got any of its trajectories.

    A lease is its trainer's, whosever the trajectories are: where the caller may not see it, its id says when.
    """
    query = (
        select(lease_item.c.lease_id, lease.c.created_us, lease.c.key_id)
        .distinct()
        .outerjoin_from(lease_item, lease, lease_item.c.lease_id == lease.c.lease_id)
        .where(lease_item.c.tenant.in_(what.owners), lease_item.c.trajectory_id.in_(what.trajectories))
        .order_by(lease_item.c.lease_id.desc())
        .limit(limit)
    )
    rows = connection.execute(query)
    return [Lending(row.created_us or _begun_us(row.lease_id), row.lease_id, row.key_id or "a trainer") for row in rows]


def _begun_us(lease_id: str) -> int:
    """Milliseconds lie in the first 48 bits of an id (RFC 9562, version 7)."""
    return int(lease_id.removeprefix("lease-")[:12], 16) * 1000


def read_log(
    connection: Connection, tenant: str | None, reader: str | None, names: Iterable[str] | None, after: str, limit: int
) -> AccessPage:
    """Reads of ``tenant``'s things (None: of anybody's) after event ``after`` ("": from the first), oldest first.

    ``reader`` is a key id, ``names`` are those of what was read; None: any.
    """
    query = select(access_log).where(access_log.c.event_id > after).order_by(access_log.c.event_id).limit(limit)
    query = _within(query, access_log.c.tenant, tenant)
    if reader is not None:
        query = query.where(access_log.c.key_id == reader)
    if names is not None:
        query = query.where(access_log.c.target.in_(list(names)))
    return _page(connection, query, limit)


def _within(query: Select[Any], column: ColumnElement[str], tenant: str | None) -> Select[Any]:
    return query if tenant is None else query.where(column == tenant)


def _page(connection: Connection, query: Select[Any], limit: int) -> AccessPage:
    rows = [AccessRow(**row._mapping) for row in connection.execute(query)]
    return AccessPage(rows, rows[-1].event_id if len(rows) == limit else None)

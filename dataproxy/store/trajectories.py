"""Lists of trajectories, newest first, by what reviewers filter by.

What has a column is asked of the database; the rest is looked at in what a page's candidates say. A page looks at a bounded
number of them and says where the next one goes on, so that no question holds the store for long.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Row, Select, select, tuple_

from atdp.rewards import effective_reward
from atdp.versions import version_index
from dataproxy.client.trajectory_types import TrajectoryPage, TrajectoryQuery
from dataproxy.errors import Refused
from dataproxy.store.rewards import rewards_of
from dataproxy.store.schema import event, trajectory
from dataproxy.store.trajectory_rows import by_tenant, kinds_of, reasons_of, rows_of
from dataproxy.store.trajectory_words import calling, released, saying, with_failed_tool

_CHUNK = 200
MOST_TRAJECTORIES, MOST_READ = 4000, 1000
"""Candidates looked at for one page, and those of which the events themselves are read: for text, tools, kinds of values."""

Key = tuple[str, str]
"""Tenant and trajectory id."""
_Keep = Callable[[Connection, Sequence[Key]], set[Key]]


@dataclass(slots=True, frozen=True)
class Cursor:
    """The place behind one row of a list."""

    started_us: int
    trajectory_id: str
    tenant: str

    @classmethod
    def parse(cls, text: str) -> "Cursor":
        """From what ``str`` gave.

        Raises:
            Refused: it is no such thing.
        """
        started, _, rest = text.partition(".")
        trajectory_id, _, tenant = rest.partition("/")
        if not started.isdigit() or len(started) > 18 or not trajectory_id:
            raise Refused("`after` is the `next_after` of the page before")
        return cls(int(started), trajectory_id, tenant)

    def __str__(self) -> str:
        return f"{self.started_us}.{self.trajectory_id}/{self.tenant}"


def list_trajectories(
    connection: Connection, tenant: str | None, query: TrajectoryQuery, sessions: Sequence[str], after: str, limit: int
) -> TrajectoryPage:
    """A page of the trajectories of ``tenant`` (None: of all); ``sessions`` are the names of ``query.session`` in the store.

    Raises:
        Refused: ``after`` is no cursor.
        InvalidVersion: ``query.version`` is no name of a version.
    """
    filters, most = _filters(query)
    candidates = select(trajectory).where(*_columns(tenant, query, sessions))
    place = Cursor.parse(after) if after else None
    found: list[Row[Any]] = []
    looked = 0
    while looked < most:
        chunk = connection.execute(_from(candidates, place, _CHUNK if filters else limit + 1, bool(sessions))).all()
        kept = _kept(connection, filters, chunk)
        for row in chunk:
            if (row.tenant, row.trajectory_id) not in kept:
                place = Cursor(row.started_us, row.trajectory_id, row.tenant)
                continue
            if len(found) == limit:
                return TrajectoryPage(rows_of(connection, found), str(place))
            found.append(row)
            place = Cursor(row.started_us, row.trajectory_id, row.tenant)
        looked += len(chunk)
        if len(chunk) < (_CHUNK if filters else limit + 1):
            return TrajectoryPage(rows_of(connection, found), None)
    return TrajectoryPage(rows_of(connection, found), str(place), place.started_us if place else None)


def _from(candidates: Select[Any], place: Cursor | None, num: int, few: bool) -> Select[Any]:
    """The next ``num`` of ``candidates``; ``few``: they are to be found by what they are, not by walking along the order."""
    order = (trajectory.c.started_us, trajectory.c.trajectory_id, trajectory.c.tenant)
    if place is not None:
        behind = tuple_(*order) < tuple_(place.started_us, place.trajectory_id, place.tenant)
        candidates = candidates.where(trajectory.c.started_us <= place.started_us, behind)
    first = trajectory.c.started_us + 0 if few else order[0]  # an expression keeps the planner from the index of the order
    return candidates.order_by(*(column.desc() for column in (first, *order[1:]))).limit(num)


def _columns(tenant: str | None, query: TrajectoryQuery, sessions: Sequence[str]) -> Iterator[Any]:
    for column, value in ((trajectory.c.tenant, tenant), (trajectory.c.agent, query.agent), (trajectory.c.lane, query.lane)):
        if value is not None:
            yield column == value
    if query.version is not None:
        yield trajectory.c.last_version == version_index(query.version)
    if sessions:
        yield trajectory.c.session_id.in_(sessions)
    if query.eligible is not None:
        yield trajectory.c.num_eligible > 0 if query.eligible else trajectory.c.num_eligible == 0
    if query.since_us is not None:
        yield trajectory.c.started_us >= query.since_us
    if query.until_us is not None:
        yield trajectory.c.started_us < query.until_us


def _filters(query: TrajectoryQuery) -> tuple[list[_Keep], int]:
    """What is left to look at in a chunk, cheapest first, and how many candidates a page may look at."""
    by_column, by_body = list(_by_column(query)), list(_by_body(query))
    return [*by_column, *by_body], MOST_READ if by_body else MOST_TRAJECTORIES


def _by_column(query: TrajectoryQuery) -> Iterator[_Keep]:
    if query.rewarded is not None or query.min_reward is not None or query.max_reward is not None:
        yield _reward_filter(query)
    if query.model is not None:
        yield _event_filter(event.c.model == query.model)
    if query.outcome is not None:
        yield _outcome_filter(query.outcome == "error")
    if query.error is not None and query.error != "tool":
        yield _event_filter(event.c.status == int(query.error) if query.error.isdecimal() else event.c.delivery == query.error)
    if query.reason is not None:
        yield _reason_filter(query.reason)


def _by_body(query: TrajectoryQuery) -> Iterator[_Keep]:
    kind, tool, release = query.kind, query.tool, query.release
    if query.error == "tool":
        yield with_failed_tool
    if kind is not None:
        yield lambda connection, keys: {key for key, kinds in kinds_of(connection, keys).items() if kind in kinds}
    if tool is not None:
        yield lambda connection, keys: calling(connection, keys, tool)
    if release is not None:
        yield lambda connection, keys: released(connection, keys, release)
    if query.text:
        yield lambda connection, keys: saying(connection, keys, query.text)


def _kept(connection: Connection, filters: Sequence[_Keep], chunk: Sequence[Row[Any]]) -> set[Key]:
    kept = {(row.tenant, row.trajectory_id) for row in chunk}
    for keep in filters:
        kept = keep(connection, sorted(kept)) if kept else kept
    return kept


def _reward_filter(query: TrajectoryQuery) -> _Keep:
    def fits(value: float | None) -> bool:
        if value is None:
            return query.rewarded is not True and query.min_reward is None and query.max_reward is None
        low, high = query.min_reward, query.max_reward
        return query.rewarded is not False and (low is None or value >= low) and (high is None or value <= high)

    def keep(connection: Connection, keys: Sequence[Key]) -> set[Key]:
        kept: set[Key] = set()
        for owner, ids in by_tenant(keys):
            rewards = rewards_of(connection, owner, ids)
            kept.update((owner, one) for one in ids if fits(effective_reward(rewards.get(one, []))))
        return kept

    return keep


def _event_filter(condition: Any) -> _Keep:
    def keep(connection: Connection, keys: Sequence[Key]) -> set[Key]:
        kept: set[Key] = set()
        for owner, ids in by_tenant(keys):
            query = select(event.c.trajectory_id).where(event.c.tenant == owner, event.c.trajectory_id.in_(ids), condition)
            kept.update((owner, one) for one in connection.execute(query.distinct()).scalars())
        return kept

    return keep


def _outcome_filter(failed: bool) -> _Keep:
    failures = _event_filter(event.c.status >= 400)
    return failures if failed else lambda connection, keys: set(keys) - failures(connection, keys)


def _reason_filter(reason: str) -> _Keep:
    def keep(connection: Connection, keys: Sequence[Key]) -> set[Key]:
        found = ((owner, name, why) for owner, ids in by_tenant(keys) for name, why in reasons_of(connection, owner, ids))
        return {(owner, name) for owner, name, why in found if why == reason}

    return keep

"""Reading much, page by page, so that an export needs memory for one page or one trajectory, however large the store is."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Select, func, select, tuple_

from atdp.events import Event
from atdp.exports.types import ExportedEvent, ExportedTrajectory
from atdp.reward_events import reward_event
from atdp.rewards import effective_reward
from dataproxy.store.database import Database
from dataproxy.store.reading import events_of, read_events
from dataproxy.store.rewards import rewards_of
from dataproxy.store.schema import eligibility, event, reward, trajectory
from dataproxy.store.scope import Scope
from dataproxy.store.segments import token_records

_PAGE = 200
_REWARDED = reward.outerjoin(
    trajectory, (trajectory.c.tenant == reward.c.tenant) & (trajectory.c.trajectory_id == reward.c.trajectory_id)
)
_SAID = ("reward_id", "target_kind", "name", "value", "label", "correction", "source", "explanation", "supersedes")


@dataclass(slots=True, frozen=True)
class ExportFilter:
    """What to export: of ``tenant`` (None: of all), and each of the others where it is not None.

    Times are UTC µs: of the start, and of a reward's coming.
    """

    tenant: str | None
    agent: str | None = None
    session: str | None = None
    kind: str | None = None
    since_us: int | None = None
    until_us: int | None = None
    tokens: bool = True

    def of_events(self, query: Select[Any]) -> Select[Any]:
        """``query`` over events, narrowed."""
        columns = {"tenant": self.tenant, "agent": self.agent, "session_id": self.session, "kind": self.kind}
        return self._timed(_narrowed(query, event.c, columns), event.c.started_us)

    def of_rewards(self, query: Select[Any]) -> Select[Any]:
        """``query`` over rewards and their trajectories, narrowed."""
        query = query if self.tenant is None else query.where(reward.c.tenant == self.tenant)
        columns = {"agent": self.agent, "session_id": self.session}
        return self._timed(_narrowed(query, trajectory.c, columns), reward.c.received_us)

    @property
    def with_rewards(self) -> bool:
        """Whether rewards are among the wanted events."""
        return self.kind in (None, "reward")

    def of_trajectories(self, query: Select[Any]) -> Select[Any]:
        """``query`` over trajectories, narrowed; ``kind`` says nothing there."""
        columns = {"tenant": self.tenant, "agent": self.agent, "session_id": self.session}
        return self._timed(_narrowed(query, trajectory.c, columns), trajectory.c.started_us)

    def _timed(self, query: Select[Any], column: Any) -> Select[Any]:
        query = query if self.since_us is None else query.where(column >= self.since_us)
        return query if self.until_us is None else query.where(column < self.until_us)


def count(connection: Connection, wanted: ExportFilter, trajectories: bool) -> tuple[int, list[str]]:
    """(number of what is wanted, whose it is)."""
    table = trajectory if trajectories else event
    query = select(table.c.tenant, func.count()).group_by(table.c.tenant)
    narrowed = wanted.of_trajectories(query) if trajectories else wanted.of_events(query)
    rows = list(connection.execute(narrowed))
    if not trajectories and wanted.with_rewards:
        of_rewards = select(reward.c.tenant, func.count()).select_from(_REWARDED).group_by(reward.c.tenant)
        rows += connection.execute(wanted.of_rewards(of_rewards))
    return sum(row[1] for row in rows), sorted({row[0] for row in rows})


def exported_events(database: Database, scope: Scope, wanted: ExportFilter) -> Iterator[ExportedEvent]:
    """The events that are there when it begins, in the order of storing; then the rewards that came for them, as events."""
    with database.read(scope) as connection:
        last = connection.execute(wanted.of_events(select(func.max(event.c.position)))).scalar() or 0
    after = 0
    while after < last:
        with database.read(scope) as connection:
            query = wanted.of_events(select(event)).where(event.c.position > after, event.c.position <= last)
            page = read_events(connection, query.order_by(event.c.position).limit(_PAGE))
            decisions = _decisions(connection, [item.event_id for _, item in page], wanted)
            found = [
                ExportedEvent(item, _tokens(connection, wanted, item.kind, item.tenant, item.event_id), decisions.get(key, {}))
                for _, item in page
                for key in [(item.tenant, item.event_id)]
            ]
        if not page:
            break
        yield from found
        after = page[-1][0]
    if wanted.with_rewards:
        yield from map(ExportedEvent, _reward_events(database, scope, wanted))


def _reward_events(database: Database, scope: Scope, wanted: ExportFilter) -> Iterator[Event]:
    """By tenant and id, which rises with time."""
    place = (reward.c.tenant, reward.c.reward_id)
    columns = (reward, trajectory.c.agent, trajectory.c.session_id)
    after: tuple[str, str] | None = None
    while True:
        query = wanted.of_rewards(select(*columns).select_from(_REWARDED)).order_by(*place).limit(_PAGE)
        with database.read(scope) as connection:
            rows = connection.execute(query if after is None else query.where(tuple_(*place) > after)).all()
        for row in rows:
            said = {"target": row.target_id} | {name: getattr(row, name) for name in _SAID}
            yield reward_event(said, row.received_us, row.tenant, row.agent or "", row.session_id or "", row.trajectory_id)
        if len(rows) < _PAGE:
            return
        after = (rows[-1].tenant, rows[-1].reward_id)


def exported_trajectories(database: Database, scope: Scope, wanted: ExportFilter) -> Iterator[ExportedTrajectory]:
    """The trajectories, by their start. One that is opened meanwhile may come along."""
    place = (trajectory.c.started_us, trajectory.c.trajectory_id)
    after: tuple[int, str] | None = None
    while True:
        with database.read(scope) as connection:
            query = wanted.of_trajectories(select(trajectory)).order_by(*place).limit(_PAGE)
            rows = connection.execute(query if after is None else query.where(tuple_(*place) > after)).all()
        for row in rows:
            with database.read(scope) as connection:
                yield _whole(connection, wanted, row)
        if len(rows) < _PAGE:
            return
        after = (rows[-1].started_us, rows[-1].trajectory_id)


def exported_named(
    database: Database, scope: Scope, names: Iterable[tuple[str, str]], tokens: bool = True
) -> Iterator[ExportedTrajectory]:
    """The trajectories of ``names`` (tenant, id), in their order, each on its own snapshot; those that are gone are passed over."""
    for tenant, trajectory_id in names:
        with database.read(scope) as connection:
            where = (trajectory.c.tenant == tenant, trajectory.c.trajectory_id == trajectory_id)
            row = connection.execute(select(trajectory).where(*where)).first()
            found = _whole(connection, ExportFilter(tenant, tokens=tokens), row) if row is not None else None
        if found is not None:
            yield found


def _whole(connection: Connection, wanted: ExportFilter, row: Any) -> ExportedTrajectory:
    events = events_of(connection, row.tenant, row.trajectory_id)
    decisions = _decisions(connection, [item.event_id for item in events], wanted)
    rewards = rewards_of(connection, row.tenant, [row.trajectory_id]).get(row.trajectory_id, [])
    found = [
        ExportedEvent(
            item,
            _tokens(connection, wanted, item.kind, item.tenant, item.event_id),
            decisions.get((item.tenant, item.event_id), {}),
        )
        for item in events
    ]
    return ExportedTrajectory(row.trajectory_id, row.tenant, row.agent, row.session_id, found, rewards, effective_reward(rewards))


def _tokens(connection: Connection, wanted: ExportFilter, kind: str, tenant: str, event_id: str) -> list[Any]:
    return token_records(connection, tenant, event_id) if wanted.tokens and kind == "model_call" else []


def _decisions(connection: Connection, ids: Sequence[str], wanted: ExportFilter) -> dict[tuple[str, str], dict[int, str]]:
    found: dict[tuple[str, str], dict[int, str]] = {}
    for start in range(0, len(ids), 500):
        query = select(eligibility).where(eligibility.c.event_id.in_(ids[start : start + 500]))
        query = query if wanted.tenant is None else query.where(eligibility.c.tenant == wanted.tenant)
        for row in connection.execute(query):
            found.setdefault((row.tenant, row.event_id), {})[row.choice] = row.reason
    return found


def _narrowed(query: Select[Any], columns: Any, wanted: dict[str, str | None]) -> Select[Any]:
    for name, value in wanted.items():
        query = query if value is None else query.where(columns[name] == value)
    return query

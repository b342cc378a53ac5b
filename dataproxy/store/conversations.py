"""What placement asks of the store, answered for a whole batch with a few queries, and written back with a few more."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from sqlalchemy import Connection, bindparam, select, update

from dataproxy.assemble.calls import Border, End, NewCall, Placement, Trajectory
from dataproxy.store.dialect import find_all, insert_new
from dataproxy.store.ends import read_first_end, read_token_ends
from dataproxy.store.schema import agent, conversation_end, event, session, tenant, token_segment, trajectory

_END = ("digest", "event_id", "choice", "session_id", "trajectory_id", "num_extended")
_TRAJECTORY = (
    *("trajectory_id", "session_id", "last_us", "num_events", "ended"),
    *("closed", "num_eligible", "last_version", "newest_version", "lane", "group_id", "group_size"),
)
_SEGMENT = ("trajectory_id", "event_id", "choice", "num_prompt", "num_output", "full_digest")
_Named = tuple[str, str, str]


class ConversationIndex:
    """The index of ``dataproxy.assemble.place`` inside one write transaction. ``prefetch``, place the calls in order, ``flush``."""

    def __init__(self, connection: Connection, first_order: int) -> None:
        self._connection = connection
        self._order = first_order
        self._ends: dict[tuple[str, str, bytes], list[End]] = defaultdict(list)
        self._token_ends: dict[tuple[str, str, bytes], list[End]] = defaultdict(list)
        self._first_ends: dict[tuple[str, str, str], End | None] = {}
        self._trajectories: dict[tuple[str, str], Trajectory] = {}
        self._latest: dict[_Named, str | None] = {}
        self._borders: dict[tuple[str, str], list[Border]] = {}
        self._of_event: dict[tuple[str, str], str] = {}
        self._extended: dict[tuple[str, str, int], int] = {}
        self._new: list[tuple[NewCall, Placement]] = []
        self._touched: dict[tuple[str, str], Trajectory] = {}

    def prefetch(self, calls: Sequence[NewCall]) -> None:
        """Read what placing ``calls`` may need."""
        wanted: dict[tuple[str, str], set[bytes]] = defaultdict(set)
        for call in calls:
            wanted[call.tenant, call.agent].update(call.prefixes)
        found: dict[str, set[str]] = defaultdict(set)
        for (owner, name), digests in wanted.items():
            rows = find_all(self._connection, conversation_end, _END, "digest", digests, tenant=owner, agent=name)
            for digest, event_id, choice, session_id, trajectory_id, num_extended in rows:
                self._ends[owner, name, digest].append(End(event_id, choice, session_id, trajectory_id, num_extended, -1))
                found[owner].add(trajectory_id)
        for owner, name, digest, end in read_token_ends(self._connection, self._lost(calls)):
            self._token_ends[owner, name, digest].append(end)
            found[owner].add(end.trajectory_id)
        for ends in (*self._ends.values(), *self._token_ends.values()):
            ends.sort(key=lambda end: end.event_id)
            for order, end in enumerate(ends):
                end.order = order - len(ends)
        for owner, ids in found.items():
            self._load(owner, ids)

    def ends(self, tenant: str, agent: str, digest: bytes) -> list[End]:
        """The stored answers at which the conversation ``digest`` ends; ``prefetch`` has read them."""
        return self._ends.get((tenant, agent, digest), [])

    def token_ends(self, tenant: str, agent: str, digest: bytes) -> list[End]:
        """The stored answers whose prompt and output ids have ``digest``; ``prefetch`` has read them."""
        return self._token_ends.get((tenant, agent, digest), [])

    def end_of(self, tenant: str, agent: str, event_id: str) -> End | None:
        """The first answer of a stored event."""
        key = (tenant, agent, event_id)
        if key not in self._first_ends:
            self._first_ends[key] = read_first_end(self._connection, *key)
        return self._first_ends[key]

    def trajectory(self, tenant: str, trajectory_id: str) -> Trajectory:
        """A stored trajectory."""
        if (tenant, trajectory_id) not in self._trajectories:
            self._load(tenant, [trajectory_id])
        return self._trajectories[tenant, trajectory_id]

    def latest_trajectory(self, tenant: str, agent: str, session_id: str) -> Trajectory | None:
        """The one of this session with the latest call."""
        key = (tenant, agent, session_id)
        if key not in self._latest:
            where = (trajectory.c.tenant == tenant, trajectory.c.session_id == session_id, trajectory.c.agent == agent)
            query = select(trajectory.c.trajectory_id).where(*where).order_by(trajectory.c.last_us.desc()).limit(1)
            self._latest[key] = self._connection.execute(query).scalar()
        latest = self._latest[key]
        return self.trajectory(tenant, latest) if latest is not None else None

    def trajectory_of(self, tenant: str, event_id: str) -> Trajectory | None:
        """The trajectory that holds ``event_id``."""
        if (tenant, event_id) not in self._of_event:
            where = (event.c.tenant == tenant, event.c.event_id == event_id)
            self._of_event[tenant, event_id] = self._connection.execute(select(event.c.trajectory_id).where(*where)).scalar() or ""
        trajectory_id = self._of_event[tenant, event_id]
        return self.trajectory(tenant, trajectory_id) if trajectory_id else None

    def borders(self, tenant: str, trajectory_id: str) -> list[Border]:
        """The ends of all choices of a trajectory, in order."""
        return self._borders.setdefault((tenant, trajectory_id), [])

    def record(self, call: NewCall, placement: Placement, parent: End | None) -> None:
        """``call`` was placed: later calls of the batch see it."""
        owner, trajectory_id = call.tenant, placement.trajectory_id
        if parent is not None:
            parent.num_extended += 1
            self._extended[owner, parent.event_id, parent.choice] = parent.num_extended
        if placement.opens_trajectory:
            self._trajectories[owner, trajectory_id] = Trajectory(
                trajectory_id, placement.session_id, call.ended_us, 0, False, False
            )
        row = self._trajectories[owner, trajectory_id]
        row.num_events += 1
        row.num_eligible += call.num_eligible
        row.last_us = max(row.last_us, call.ended_us)
        row.last_version = call.last_version if call.last_version >= 0 else row.last_version
        row.newest_version = max(row.newest_version, call.newest_version)
        row.serve_in(call.lane)
        row.attempt(call.group, call.group_size)
        self._touched[owner, trajectory_id] = row
        self._latest[owner, call.agent, placement.session_id] = trajectory_id
        self._of_event[owner, call.event_id] = trajectory_id
        for choice, (length, digest) in sorted(call.borders.items()):
            self.borders(owner, trajectory_id).append(Border(call.event_id, choice, length, digest))
        for choice in sorted(call.ends.keys() | call.borders.keys()):
            end = End(call.event_id, choice, placement.session_id, trajectory_id, 0, self._order)
            if choice in call.ends:
                self._ends[owner, call.agent, call.ends[choice]].append(end)
            if choice in call.borders:
                self._token_ends[owner, call.agent, call.borders[choice][1]].append(end)
            if self._first_ends.get((owner, call.agent, call.event_id)) is None:
                self._first_ends[owner, call.agent, call.event_id] = end
        self._order += 1
        self._new.append((call, placement))

    def flush(self) -> None:
        """Write sessions, trajectories and conversation ends. The events themselves are the caller's."""
        insert_new(self._connection, tenant, [{"tenant": t, "created_us": c.started_us} for t, c in self._first("tenant").items()])
        agents = {(call.tenant, call.agent): call.started_us for call, _ in reversed(self._new)}
        insert_new(self._connection, agent, [{"tenant": t, "agent": a, "created_us": us} for (t, a), us in agents.items()])
        insert_new(self._connection, session, [_session_row(c, p) for c, p in self._new if p.opens_session])
        opened = {(c.tenant, p.trajectory_id): c for c, p in self._new if p.opens_trajectory}
        insert_new(self._connection, trajectory, [self._trajectory_row(key, call) for key, call in opened.items()])
        grown = [self._grown(key) for key in self._touched if key not in opened]
        _update_all(self._connection, trajectory, ("tenant", "trajectory_id"), grown)
        insert_new(self._connection, conversation_end, list(self._end_rows()))
        counts = [{"k_tenant": t, "k_event_id": e, "k_choice": c, "num_extended": n} for (t, e, c), n in self._extended.items()]
        _update_all(self._connection, conversation_end, ("tenant", "event_id", "choice"), counts)

    def _lost(self, calls: Sequence[NewCall]) -> dict[tuple[str, str], set[bytes]]:
        """The token prefixes of those calls whose conversation the store does not know by its messages, by tenant and agent."""
        lost: dict[tuple[str, str], set[bytes]] = defaultdict(set)
        for call in calls:
            if call.token_prefixes and not any((call.tenant, call.agent, digest) in self._ends for digest in call.prefixes):
                lost[call.tenant, call.agent].update(call.token_prefixes)
        return lost

    def _load(self, owner: str, ids: Iterable[str]) -> None:
        wanted = {i for i in ids if (owner, i) not in self._trajectories}
        for row in find_all(self._connection, trajectory, _TRAJECTORY, "trajectory_id", wanted, tenant=owner):
            self._trajectories[owner, row[0]] = Trajectory(*row)
        segments = find_all(self._connection, token_segment, _SEGMENT, "trajectory_id", wanted, tenant=owner)
        for trajectory_id, event_id, choice, num_prompt, num_output, digest in sorted(segments):
            self.borders(owner, trajectory_id).append(Border(event_id, choice, num_prompt + num_output, digest))

    def _first(self, attribute: str) -> dict[str, NewCall]:
        return {getattr(call, attribute): call for call, _ in reversed(self._new)}

    def _trajectory_row(self, key: tuple[str, str], call: NewCall) -> dict[str, Any]:
        row = self._trajectories[key]
        return {
            "tenant": key[0],
            "trajectory_id": key[1],
            "agent": call.agent,
            "session_id": row.session_id,
            "started_us": call.started_us,
            "last_us": row.last_us,
            "num_events": row.num_events,
            "num_eligible": row.num_eligible,
            "num_rewards": 0,
            "times_trained": 0,
            "closed": False,
            "last_version": row.last_version,
            "newest_version": row.newest_version,
            "lane": row.lane,
            "group_id": row.group,
            "group_size": row.group_size,
        }

    def _grown(self, key: tuple[str, str]) -> dict[str, Any]:
        row = self._touched[key]
        names = ("last_us", "num_events", "num_eligible", "last_version", "newest_version", "lane", "group_size")
        whose = {"k_tenant": key[0], "k_trajectory_id": key[1], "group_id": row.group}
        return whose | {name: getattr(row, name) for name in names}

    def _end_rows(self) -> Iterator[dict[str, Any]]:
        extended = self._extended
        for call, placement in self._new:
            for choice, digest in call.ends.items():
                yield {
                    "tenant": call.tenant,
                    "event_id": call.event_id,
                    "choice": choice,
                    "agent": call.agent,
                    "session_id": placement.session_id,
                    "trajectory_id": placement.trajectory_id,
                    "digest": digest,
                    "num_extended": extended.get((call.tenant, call.event_id, choice), 0),
                }


def _session_row(call: NewCall, placement: Placement) -> dict[str, Any]:
    return {
        "tenant": call.tenant,
        "session_id": placement.session_id,
        "agent": call.agent,
        "source": call.session_source,
        "routing_name": call.routing_name,
        "created_us": call.started_us,
    }


def _update_all(connection: Connection, table: Any, keys: tuple[str, ...], rows: list[dict[str, Any]]) -> None:
    """UPDATE by primary key; a row's key columns come as ``k_<name>``."""
    if rows:
        where = [table.c[name] == bindparam(f"k_{name}") for name in keys]
        connection.execute(update(table).where(*where), rows)

"""Where a posted event belongs: the trajectory it names, its parent's, its session's latest, or one that it opens.

Used inside one write transaction; counters go up when ``flush`` is called, once a trajectory.
"""

from dataclasses import dataclass

from sqlalchemy import Connection, select, update

from atdp.events import Event
from atdp.ids import event_id_in, new_event_id
from dataproxy.assemble.calls import Placement
from dataproxy.store.dialect import insert_new
from dataproxy.store.schema import agent, event, session, tenant, trajectory


@dataclass(slots=True)
class _Trajectory:
    session_id: str
    num_events: int
    last_us: int


class Places:
    """Places events of one batch. ``now_us`` bounds what a sender says of the time."""

    def __init__(self, connection: Connection, now_us: int) -> None:
        self._connection = connection
        self._now_us = now_us
        self._trajectories: dict[tuple[str, str], _Trajectory | None] = {}
        self._latest: dict[tuple[str, str, str], str | None] = {}
        self._placed: dict[tuple[str, str], str] = {}
        self._touched: set[tuple[str, str]] = set()

    def of(self, item: Event) -> Placement:
        """The place of ``item``, which counts there from now on. Without session, trajectory or parent it stands alone."""
        parent_id = (event_id_in(item.parent_id) or item.parent_id) if item.parent_id else None
        trajectory_id = self._named(item) or self._of_parent(item.tenant, parent_id) or self._of_session(item)
        if trajectory_id is None and not item.session_id:
            return Placement("", "", 0, parent_id, None, False, False)
        if trajectory_id is None:
            trajectory_id = self._open(item)
        found = self._trajectories[item.tenant, trajectory_id]
        assert found is not None
        place = Placement(found.session_id, trajectory_id, found.num_events, parent_id, None, False, False)
        found.num_events += 1
        found.last_us = max(found.last_us, min(item.ended_at, self._now_us))
        self._touched.add((item.tenant, trajectory_id))
        self._placed[item.tenant, item.event_id] = trajectory_id
        return place

    def flush(self) -> None:
        """Write what has grown."""
        for owner, name in sorted(self._touched):
            found = self._trajectories[owner, name]
            assert found is not None
            where = (trajectory.c.tenant == owner, trajectory.c.trajectory_id == name)
            grown = {"num_events": found.num_events, "last_us": found.last_us}
            self._connection.execute(update(trajectory).where(*where).values(grown))

    def _named(self, item: Event) -> str | None:
        return item.trajectory_id if item.trajectory_id and self._load(item.tenant, item.trajectory_id) else None

    def _of_parent(self, owner: str, parent_id: str | None) -> str | None:
        if parent_id is None:
            return None
        if (owner, parent_id) not in self._placed:
            query = select(event.c.trajectory_id).where(event.c.tenant == owner, event.c.event_id == parent_id)
            self._placed[owner, parent_id] = self._connection.execute(query).scalar() or ""
        found = self._placed[owner, parent_id]
        return found if found and self._load(owner, found) else None

    def _of_session(self, item: Event) -> str | None:
        if not item.session_id:
            return None
        key = (item.tenant, item.agent, item.session_id)
        if key not in self._latest:
            columns = (trajectory.c.tenant, trajectory.c.agent, trajectory.c.session_id)
            where = [column == value for column, value in zip(columns, key, strict=True)]
            query = select(trajectory.c.trajectory_id).where(*where).order_by(trajectory.c.last_us.desc()).limit(1)
            self._latest[key] = self._connection.execute(query).scalar()
        found = self._latest[key]
        return found if found and self._load(item.tenant, found) else None

    def _load(self, owner: str, name: str) -> bool:
        """Whether the trajectory is known; it is at hand afterwards."""
        if (owner, name) not in self._trajectories:
            query = select(trajectory).where(trajectory.c.tenant == owner, trajectory.c.trajectory_id == name)
            row = self._connection.execute(query).first()
            found = _Trajectory(row.session_id, row.num_events, row.last_us) if row is not None else None
            self._trajectories[owner, name] = found
        return self._trajectories[owner, name] is not None

    def _open(self, item: Event) -> str:
        """A trajectory, and its session where that is new; later calls of the session join it."""
        name, started_us = f"tr-{new_event_id()}", min(item.started_at, self._now_us)
        owner = {"tenant": item.tenant}
        of_session = {"session_id": item.session_id, "agent": item.agent, "source": "event", "routing_name": ""}
        counts = dict.fromkeys(("num_events", "num_eligible", "num_rewards", "times_trained"), 0)
        of_trajectory = {"trajectory_id": name, "agent": item.agent, "session_id": item.session_id, "closed": False, **counts}
        versions = {"last_version": -1, "newest_version": -1}
        insert_new(self._connection, tenant, [{**owner, "created_us": started_us}])
        insert_new(self._connection, agent, [{**owner, "agent": item.agent, "created_us": started_us}])
        insert_new(self._connection, session, [{**owner, **of_session, "created_us": started_us}])
        times = {"started_us": started_us, "last_us": started_us}
        insert_new(self._connection, trajectory, [{**owner, **of_trajectory, **times, **versions}])
        self._trajectories[item.tenant, name] = _Trajectory(item.session_id, 0, started_us)
        self._latest[item.tenant, item.agent, item.session_id] = name
        return name

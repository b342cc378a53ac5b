"""Retention: how long a tenant's or an agent's trajectories are kept, and the job that erases what has outlived that.

Nothing expires where nothing is on record. Expiry is erasure: same tombstones, same proof, and a legal hold beats it.
"""

from sqlalchemy import Connection, and_, exists, select

from atdp.ids import new_event_id
from dataproxy.client.review_types import Erasure, Retention
from dataproxy.errors import Refused
from dataproxy.ledger.rows import append_rows
from dataproxy.retain.erase import erase, plan_erasure
from dataproxy.retain.holds import holds_on, list_holds
from dataproxy.retain.targets import Belongings, Target
from dataproxy.store.database import Database
from dataproxy.store.schema import event, retention_policy, tombstone, trajectory

_DAY_US = 86_400_000_000
_BATCH = 200


def list_retention(connection: Connection, tenant: str | None) -> list[Retention]:
    """Every word on record for ``tenant`` (None: for all), oldest first."""
    query = select(retention_policy).order_by(retention_policy.c.created_us, retention_policy.c.policy_id)
    rows = connection.execute(query if tenant is None else query.where(retention_policy.c.tenant == tenant)).mappings()
    names = ("tenant", "class", "days", "reason", "agent", "created_us", "key_id")
    return [Retention(*(row[name] for name in names)) for row in rows]


def set_retention(connection: Connection, item: Retention, key_id: str, now_us: int) -> None:
    """Put ``item`` on record; it holds from now on.

    Raises:
        Refused: a field is missing or negative.
    """
    if not item.tenant or not item.name or not item.reason or (item.days is not None and not 0 <= item.days < 1e5):
        raise Refused("retention needs a `tenant`, a class `name`, a `reason`, and `days` that are not negative, or null for ever")
    row = {"tenant": item.tenant, "policy_id": new_event_id(), "agent": item.agent, "class": item.name, "days": item.days}
    row |= {"reason": item.reason, "key_id": key_id, "created_us": now_us}
    connection.execute(retention_policy.insert().values(row))
    append_rows(connection, retention_policy, [row])


def expire(database: Database, now_us: int) -> list[Erasure]:
    """Erase what has outlived its retention, up to a batch for each tenant and class; gives what was erased."""
    with database.read() as connection:
        held = _holding(list_retention(connection, None))
    done = []
    for (tenant, agent), policy in sorted(held.items()):
        if policy.days is None:
            continue
        narrower = {name for owner, name in held if owner == tenant and name} if not agent else set()
        with database.read() as connection:
            expired = _expired(connection, tenant, agent, narrower, now_us - int(policy.days * _DAY_US))
            if not expired:
                continue
            plan = plan_erasure(connection, Target(tenant, "retention", policy.name, expired))
        with database.write() as connection:
            done.append(erase(connection, plan, f"retention class {policy.name}: {policy.days:g} days", "", now_us))
    return done


def _holding(rows: list[Retention]) -> dict[tuple[str, str], Retention]:
    return {(row.tenant, row.agent): row for row in rows}


def _expired(connection: Connection, tenant: str, agent: str, narrower: set[str], before_us: int) -> tuple[str, ...]:
    """Trajectories whose last event is older and that still hold something, but for those on hold."""
    stone = and_(tombstone.c.tenant == event.c.tenant, tombstone.c.kind == "event", tombstone.c.row_key == event.c.event_id)
    mine = and_(event.c.tenant == trajectory.c.tenant, event.c.trajectory_id == trajectory.c.trajectory_id)
    alive = exists().where(mine, ~exists().where(stone))
    where = [trajectory.c.tenant == tenant, trajectory.c.last_us < before_us, alive]
    where.append(trajectory.c.agent == agent if agent else trajectory.c.agent.not_in(narrower))
    query = select(trajectory.c.trajectory_id, trajectory.c.session_id, trajectory.c.agent).where(*where)
    rows = connection.execute(query.order_by(trajectory.c.last_us).limit(_BATCH)).all()
    holds = list_holds(connection, tenant)
    subjects = _subjects(connection, tenant, [row.trajectory_id for row in rows]) if holds else {}
    free = []
    for row in rows:
        found = Belongings([row.trajectory_id], [row.session_id], subjects.get(row.trajectory_id, []), [row.agent])
        if not holds_on(holds, tenant, found):
            free.append(row.trajectory_id)
    return tuple(free)


def _subjects(connection: Connection, tenant: str, ids: list[str]) -> dict[str, list[str]]:
    query = (
        select(event.c.trajectory_id, event.c.subject).distinct().where(event.c.tenant == tenant, event.c.trajectory_id.in_(ids))
    )
    found: dict[str, list[str]] = {}
    for row in connection.execute(query):
        found.setdefault(row.trajectory_id, []).append(row.subject)
    return found

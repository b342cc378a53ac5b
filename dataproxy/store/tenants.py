"""Tenants as an operator looks at them: who is there, how much is theirs, and under which words."""

from collections import Counter
from typing import Any

from sqlalchemy import ColumnElement, Connection, Table, func, select

from dataproxy.client.trajectory_types import TenantRow
from dataproxy.store.consents import ConsentBook
from dataproxy.store.keys import OPERATOR
from dataproxy.store.schema import agent, api_key, consent, tenant, trajectory


def list_tenants(connection: Connection, owner: str | None, holds: Counter[str]) -> list[TenantRow]:
    """Every tenant (or ``owner`` alone) that has a key, a consent or a recording, by name; ``holds`` counts those in force."""
    keys = _count(connection, api_key, owner, api_key.c.revoked_us.is_(None))
    trajectories, agents = _count(connection, trajectory, owner), _count(connection, agent, owner)
    last = select(func.max(trajectory.c.started_us))
    newest = {name: connection.execute(last.where(trajectory.c.tenant == name)).scalar_one() for name in trajectories}
    known = set(keys) | set(trajectories) | set(_count(connection, consent, owner)) | set(_count(connection, tenant, owner))
    consents = ConsentBook.read(connection)
    return [
        TenantRow(
            name,
            keys.get(name, 0),
            agents.get(name, 0),
            trajectories.get(name, 0),
            newest.get(name),
            holds[name],
            consents.may_train(name, "", ""),
        )
        for name in sorted(known - {OPERATOR})
    ]


def _count(connection: Connection, table: Table, owner: str | None, *where: ColumnElement[bool]) -> dict[str, int]:
    query = _of(select(table.c.tenant, func.count()).where(*where).group_by(table.c.tenant), table, owner)
    return {str(row[0]): int(row[1]) for row in connection.execute(query)}


def _of(query: Any, table: Table, owner: str | None) -> Any:
    return query if owner is None else query.where(table.c.tenant == owner)

"""Agents' reward rules as they hold now: columns of ``agent``, so that leases can ask for them in SQL."""

from typing import Any

import msgspec
from sqlalchemy import Connection, func, select, update

from dataproxy.client.reward_types import AgentChange, AgentRule, Sources
from dataproxy.errors import Refused
from dataproxy.store.consents import is_internal
from dataproxy.store.dialect import insert_new
from dataproxy.store.parties import require_known
from dataproxy.store.schema import agent, event

_PLAIN = ("settle_s", "terminal", "deadline_s", "deadline_value", "group_wait_s")


def list_rules(connection: Connection, tenant: str | None, default_settle_s: float) -> list[AgentRule]:
    """Rules of every agent of ``tenant`` (None: of all), by name."""
    query = select(agent).order_by(agent.c.tenant, agent.c.agent)
    rows = connection.execute(query if tenant is None else query.where(agent.c.tenant == tenant))
    return [
        AgentRule(
            tenant=row.tenant,
            agent=row.agent,
            settle_s=row.settle_s,
            default_settle_s=default_settle_s,
            terminal=row.terminal,
            deadline_s=row.deadline_s,
            deadline_value=row.deadline_value,
            sources=_sources(row.sources),
            group_wait_s=row.group_wait_s,
        )
        for row in rows
    ]


def set_rule(connection: Connection, change: AgentChange, now_us: int) -> None:
    """Change what ``change`` names. A source that is switched on looks at what comes from now on.

    Raises:
        NotFound: no such tenant or agent.
        Refused: a value for a deadline that there is none of, or a rule for what is no agent of anybody's.
    """
    if is_internal(change.agent):
        raise Refused(f"{change.agent} is the system's own: it has no trajectories, and nothing rewards or judges its calls")
    require_known(connection, change.tenant, change.agent)
    insert_new(connection, agent, [{"tenant": change.tenant, "agent": change.agent, "created_us": now_us}])
    given = {name: value for name in _PLAIN if (value := getattr(change, name)) is not msgspec.UNSET}
    values: dict[str, Any] = dict(given)
    if change.sources is not msgspec.UNSET:
        on = isinstance(change.sources, Sources) and change.sources.any()
        values["sources"] = msgspec.json.encode(change.sources).decode() if on else None
        if on and _swept(connection, change) is None:
            newest = select(func.coalesce(func.max(event.c.position), 0)).where(event.c.tenant == change.tenant)
            values["swept_position"] = connection.execute(newest).scalar_one()
        elif not on:
            values["swept_position"] = None
    before = connection.execute(select(agent.c.deadline_s, agent.c.deadline_value).where(*_same(change.tenant, change.agent))).one()
    deadline = {"deadline_s": before.deadline_s, "deadline_value": before.deadline_value} | values
    if deadline["deadline_value"] is not None and deadline["deadline_s"] is None:
        raise Refused("`deadline_value` is given at a deadline: it needs `deadline_s`, and goes with it")
    if values:
        connection.execute(update(agent).where(*_same(change.tenant, change.agent)).values(values))


def with_sources(connection: Connection) -> list[tuple[str, str, int, Sources]]:
    """(tenant, agent, position looked at last, sources) of every agent that has one on."""
    query = select(agent).where(agent.c.sources.is_not(None)).order_by(agent.c.tenant, agent.c.agent)
    return [(row.tenant, row.agent, row.swept_position or 0, _sources(row.sources)) for row in connection.execute(query)]


def sources_of(connection: Connection, tenant: str, name: str) -> Sources:
    """The sources of one agent."""
    return _sources(connection.execute(select(agent.c.sources).where(*_same(tenant, name))).scalar())


def move_on(connection: Connection, tenant: str, name: str, position: int) -> None:
    """Sources of this agent have looked at everything up to ``position``."""
    connection.execute(update(agent).where(*_same(tenant, name)).values(swept_position=position))


def _swept(connection: Connection, change: AgentChange) -> int | None:
    return connection.execute(select(agent.c.swept_position).where(*_same(change.tenant, change.agent))).scalar()


def _sources(packed: str | None) -> Sources:
    return msgspec.json.decode(packed, type=Sources) if packed else Sources()


def _same(tenant: str, name: str) -> tuple[Any, ...]:
    return agent.c.tenant == tenant, agent.c.agent == name

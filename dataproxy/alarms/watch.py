"""What the rules look at, asked of the store; and the alarms as Prometheus text."""

from collections.abc import Sequence

import msgspec
from sqlalchemy import ColumnElement, Connection, and_, case, func, select

from atdp.versions import version_index
from dataproxy.alarms.rules import STALE_VERSIONS, WINDOW_S, Facts, alarms_of
from dataproxy.client.watch_types import Alarm, VersionOutcome
from dataproxy.store.schema import trajectory
from dataproxy.store.version_outcomes import version_outcomes
from dataproxy.store.versions import list_versions

_COMPARED = 8
"""Newest versions whose rewards are looked at."""


def look(connection: Connection, tenant: str | None, now_us: int, outcomes: Sequence[VersionOutcome] | None = None) -> list[Alarm]:
    """Every alarm as ``tenant`` sees it (None: over all); what the trainer measured is the operator's alone.

    ``outcomes`` of the newest versions at least, where they are at hand.
    """
    versions = list_versions(connection)
    head = max((version_index(one.version) for one in versions if one.state in ("serving", "canary", "published")), default=-1)
    known = versions if tenant is None else [msgspec.structs.replace(one, metrics={}) for one in versions]
    outcomes = version_outcomes(connection, tenant, versions=_COMPARED) if outcomes is None else outcomes[-_COMPARED:]
    since_us = now_us - WINDOW_S * 1_000_000
    return alarms_of(Facts(outcomes, known, _recent(connection, tenant, since_us, head), since_us))


def exposition(alarms: list[Alarm]) -> str:
    """Text exposition format 0.0.4: 1 where an alarm fires, and the value and threshold of each."""
    lines = ["# HELP headrace_alarm Whether the alarm fires.", "# TYPE headrace_alarm gauge"]
    lines += [f'headrace_alarm{{name="{one.name}"}} {int(one.firing)}' for one in alarms]
    for what in ("value", "threshold"):
        lines += [f"# HELP headrace_alarm_{what} The {what} of its rule.", f"# TYPE headrace_alarm_{what} gauge"]
        found = ((one.name, getattr(one, what)) for one in alarms)
        lines += [f'headrace_alarm_{what}{{name="{name}"}} {value:.12g}' for name, value in found if value is not None]
    return "\n".join(lines) + "\n"


def _recent(connection: Connection, tenant: str | None, since_us: int, head: int) -> dict[str, int]:
    eligible, rewarded = trajectory.c.num_eligible > 0, trajectory.c.num_rewards > 0
    trained = trajectory.c.times_trained > 0
    waiting = and_(rewarded, eligible, trajectory.c.times_trained == 0)
    stale = and_(waiting, trajectory.c.newest_version < head - STALE_VERSIONS)
    named = {"eligible": eligible, "rewarded": rewarded, "trained": trained, "waiting": waiting, "stale": stale}
    query = select(func.count().label("all"), *(_count(what).label(name) for name, what in named.items()))
    query = query.where(trajectory.c.started_us >= since_us)
    row = connection.execute(query if tenant is None else query.where(trajectory.c.tenant == tenant)).one()
    return {name: int(value) for name, value in row._mapping.items()}


def _count(condition: ColumnElement[bool]) -> ColumnElement[int]:
    return func.coalesce(func.sum(case((condition, 1), else_=0)), 0)

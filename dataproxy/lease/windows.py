"""The reward window of a trajectory: what its agent waits for before it may train, as conditions of SQL, and why each still waits.

An agent's rule names the reward that ends a trajectory (``terminal``), or none: then any reward will do. A deadline ends the wait;
a trajectory that nobody rewarded by then gets the agent's ``deadline_value`` as a reward on record, or never trains.
The conditions are about ``with_agent()``.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Connection, FromClause, and_, case, exists, func, literal, not_, or_, select, true
from sqlalchemy.sql.selectable import Join

from dataproxy.retain.holds import is_on_hold
from dataproxy.store.rewards import given_by_rule, insert_reward
from dataproxy.store.schema import agent, judgement, lease_item, reward, trajectory

_MOST_AT_ONCE = 256
GROUP_WAIT_S = 600.0
"""How long an attempt waits for the others of its group after its own last call, where its agent does not say."""


@dataclass(slots=True, frozen=True)
class Now:
    """The moment (UTC µs), and the settling time where an agent has none of its own."""

    now_us: int
    settle_s: float


def with_agent() -> Join:
    """Trajectories with their agents' rules."""
    return trajectory.outerjoin(agent, and_(agent.c.tenant == trajectory.c.tenant, agent.c.agent == trajectory.c.agent))


def is_settled(now: Now, of: FromClause = trajectory) -> ColumnElement[bool]:
    """No call has come for the agent's settling time."""
    settle_us = func.coalesce(agent.c.settle_s * 1_000_000, now.settle_s * 1e6)
    return of.c.last_us <= now.now_us - settle_us


def is_past_deadline(now: Now, of: FromClause = trajectory) -> ColumnElement[bool]:
    """The agent has a deadline, and it is over. Not null, whatever the agent says."""
    return and_(agent.c.deadline_s.is_not(None), of.c.last_us <= now.now_us - func.coalesce(agent.c.deadline_s, 0) * 1_000_000)


def is_open(now: Now, of: FromClause = trajectory) -> ColumnElement[bool]:
    """Its agent's terminal reward has not come, and there is time left for it."""
    return and_(agent.c.terminal.is_not(None), ~_has_terminal(of), ~is_past_deadline(now, of))


def is_judged(of: FromClause = trajectory) -> ColumnElement[bool]:
    """No judge has yet to speak on a turn of it. Each does in bounded time, or abstains."""
    same = and_(judgement.c.tenant == of.c.tenant, judgement.c.trajectory_id == of.c.trajectory_id)
    return ~exists().where(same, judgement.c.state == "waiting")


def awaits_group(now: Now) -> ColumnElement[bool]:
    """It is one of several attempts, others of which are still on their way or not rewarded yet, and there is time left for them.

    Waited for are those that have begun, and as many as were announced. The time runs from the last call of the one that waits.
    """
    other = trajectory.alias("attempt")
    same = and_(
        other.c.tenant == trajectory.c.tenant, other.c.agent == trajectory.c.agent, other.c.group_id == trajectory.c.group_id
    )
    never = and_(is_past_deadline(now, other), agent.c.deadline_value.is_(None))
    unrewarded = and_(other.c.num_rewards == 0, ~never)
    unready = and_(other.c.num_eligible > 0, or_(unrewarded, is_open(now, other), ~is_judged(other)))
    coming = exists().where(same, other.c.times_trained == 0, or_(~is_settled(now, other), unready))
    missing = select(func.count()).select_from(other).where(same).scalar_subquery() < trajectory.c.group_size
    wait_us = func.coalesce(agent.c.group_wait_s, GROUP_WAIT_S) * 1_000_000
    return and_(trajectory.c.group_id != "", trajectory.c.last_us > now.now_us - wait_us, or_(coming, missing))


def held() -> ColumnElement[bool]:
    """An open lease holds it."""
    same = and_(lease_item.c.tenant == trajectory.c.tenant, lease_item.c.trajectory_id == trajectory.c.trajectory_id)
    return exists().where(same, lease_item.c.held.is_(True))


def _has_terminal(of: FromClause) -> ColumnElement[bool]:
    same = and_(reward.c.tenant == of.c.tenant, reward.c.trajectory_id == of.c.trajectory_id)
    return exists().where(same, reward.c.name == agent.c.terminal, reward.c.value.is_not(None)).correlate_except(reward)


def where_it_is(now: Now) -> ColumnElement[str]:
    """One word on how far a trajectory is: the first that holds of trained, not_eligible, leased, legal_hold,
    no_reward_by_deadline, judge_waits, no_reward, window_open, settling, group_waits, ready.
    """
    unrewarded = trajectory.c.num_rewards == 0
    return case(
        (trajectory.c.times_trained > 0, "trained"),
        (trajectory.c.num_eligible == 0, "not_eligible"),
        (held(), "leased"),
        (is_on_hold(), "legal_hold"),
        (and_(unrewarded, is_past_deadline(now), agent.c.deadline_value.is_(None)), "no_reward_by_deadline"),
        (not_(is_judged()), "judge_waits"),
        (unrewarded, "no_reward"),
        (is_open(now), "window_open"),
        (not_(is_settled(now)), "settling"),
        (awaits_group(now), "group_waits"),
        else_=literal("ready"),
    )


def count_places(connection: Connection, now: Now, tenant: str | None) -> dict[str, int]:
    """Trajectories of ``tenant`` (None: all) by ``where_it_is``."""
    states = select(where_it_is(now).label("place")).select_from(with_agent()).where(_of(tenant)).subquery()
    query = select(states.c.place, func.count()).group_by(states.c.place)
    return {str(place): int(count) for place, count in connection.execute(query)}


def place_of(connection: Connection, now: Now, tenant: str, trajectory_id: str) -> str:
    """``where_it_is`` of one stored trajectory."""
    where = (trajectory.c.tenant == tenant, trajectory.c.trajectory_id == trajectory_id)
    return str(connection.execute(select(where_it_is(now)).select_from(with_agent()).where(*where)).scalar_one())


def reward_by_deadline(connection: Connection, now: Now, tenant: str | None) -> int:
    """Give those trajectories that nobody rewarded in time what their agents' rules say, on record; gives their number."""
    if connection.execute(select(agent.c.agent).where(agent.c.deadline_value.is_not(None)).limit(1)).first() is None:
        return 0  # rather than look at all that was never rewarded
    late = (
        trajectory.c.num_rewards == 0,
        trajectory.c.num_eligible > 0,
        is_past_deadline(now),
        agent.c.deadline_value.is_not(None),
    )
    columns = (trajectory.c.tenant, trajectory.c.trajectory_id, agent.c.deadline_value)
    query = select(*columns).select_from(with_agent()).where(*late, is_judged(), _of(tenant))
    rows: Sequence[Any] = connection.execute(query.order_by(trajectory.c.last_us).limit(_MOST_AT_ONCE)).all()
    for row in rows:
        where = ("trajectory", row.trajectory_id, row.trajectory_id)
        why = "nobody rewarded it before the agent's deadline"
        insert_reward(connection, given_by_rule(row.tenant, where, "deadline", row.deadline_value, "environment", now.now_us, why))
    return len(rows)


def _of(tenant: str | None) -> ColumnElement[bool]:
    return true() if tenant is None else trajectory.c.tenant == tenant

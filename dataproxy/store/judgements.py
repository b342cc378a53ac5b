"""What a judge was asked and said of single turns: rows that wait, are settled once, and outlive a restart."""

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec
from sqlalchemy import ColumnElement, Connection, func, select, update

from dataproxy.store.dialect import find_all, insert_new
from dataproxy.store.schema import judgement


@dataclass(slots=True, frozen=True)
class Waiting:
    """A turn that waits for its judge: what came next is in ``next_event``."""

    tenant: str
    event_id: str
    trajectory_id: str
    agent: str
    next_event: str
    attempts: int


def ask_for(connection: Connection, item: Waiting, now_us: int) -> None:
    """Let ``item`` wait for its judge; one that waits, or was settled, stays as it is."""
    row = {"tenant": item.tenant, "event_id": item.event_id, "trajectory_id": item.trajectory_id, "agent": item.agent}
    rest = {"attempts": 0, "votes": "[]", "num_tokens": 0, "nanodollars": 0, "created_us": now_us, "decided_us": None}
    insert_new(connection, judgement, [{**row, "next_event": item.next_event, "state": "waiting", **rest}])


def next_waiting(connection: Connection, limit: int) -> list[Waiting]:
    """Those that have waited longest."""
    columns = [judgement.c[name] for name in ("tenant", "event_id", "trajectory_id", "agent", "next_event", "attempts")]
    query = select(*columns).where(judgement.c.state == "waiting")
    return [Waiting(*row) for row in connection.execute(query.order_by(judgement.c.created_us, judgement.c.event_id).limit(limit))]


def note_attempt(connection: Connection, item: Waiting, num_tokens: int, nanodollars: int) -> None:
    """One attempt more that came to nothing, and what it cost."""
    cost = {"num_tokens": judgement.c.num_tokens + num_tokens, "nanodollars": judgement.c.nanodollars + nanodollars}
    connection.execute(update(judgement).where(*_same(item)).values(attempts=judgement.c.attempts + 1, **cost))


def settle(
    connection: Connection, item: Waiting, state: str, votes: Sequence[float | None], num_tokens: int, nanodollars: int, now_us: int
) -> bool:
    """``item`` is rewarded or abstained; False if it did not wait any more, and nothing changes."""
    cost = {"num_tokens": judgement.c.num_tokens + num_tokens, "nanodollars": judgement.c.nanodollars + nanodollars}
    said = {
        "state": state,
        "votes": msgspec.json.encode(votes).decode(),
        "decided_us": now_us,
        "attempts": judgement.c.attempts + 1,
    }
    done = connection.execute(update(judgement).where(*_same(item), judgement.c.state == "waiting").values(**said, **cost))
    return done.rowcount == 1


def abstained_events(connection: Connection, tenant: str, trajectory_ids: Sequence[str]) -> set[str]:
    """Events of ``trajectory_ids`` whose judge would not say."""
    found = find_all(connection, judgement, ["event_id"], "trajectory_id", trajectory_ids, tenant=tenant, state="abstained")
    return {row[0] for row in found}


def count_judgements(connection: Connection, tenant: str | None) -> tuple[dict[str, int], int, float]:
    """(number by state, tokens, US dollars) of ``tenant`` (None: all)."""
    sums = (func.count(), func.sum(judgement.c.num_tokens), func.sum(judgement.c.nanodollars))
    query = select(judgement.c.state, *sums).group_by(judgement.c.state)
    rows = connection.execute(query if tenant is None else query.where(judgement.c.tenant == tenant)).all()
    counts = {str(row[0]): int(row[1]) for row in rows}
    return counts, sum(int(row[2]) for row in rows), sum(int(row[3]) for row in rows) / 1e9


def _same(item: Waiting) -> tuple[ColumnElement[bool], ...]:
    return judgement.c.tenant == item.tenant, judgement.c.event_id == item.event_id

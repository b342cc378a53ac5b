"""Dead letters: rewards whose exchange never came. They can be read, and tried again."""

from typing import Any

import msgspec
from sqlalchemy import Connection, delete, func, select

from atdp.rewards import event_of
from dataproxy.client.reward_types import DeadLetter, Retried
from dataproxy.errors import NotFound
from dataproxy.store.pending import add_pending
from dataproxy.store.rewards import RewardRow, insert_reward
from dataproxy.store.schema import dead_letter, event

_REWARD = "reward"


def list_dead(connection: Connection, tenant: str | None, limit: int) -> list[DeadLetter]:
    """The oldest of ``tenant`` (None: of all)."""
    query = select(dead_letter).where(dead_letter.c.kind == _REWARD)
    if tenant is not None:
        query = query.where(dead_letter.c.tenant == tenant)
    rows = connection.execute(query.order_by(dead_letter.c.created_us, dead_letter.c.letter_id).limit(limit)).all()
    return [_shown(row, msgspec.msgpack.decode(row.body, type=RewardRow)) for row in rows]


def count_dead(connection: Connection, tenant: str | None) -> int:
    """How many there are of ``tenant`` (None: of all)."""
    query = select(func.count()).select_from(dead_letter).where(dead_letter.c.kind == _REWARD)
    return int(connection.execute(query if tenant is None else query.where(dead_letter.c.tenant == tenant)).scalar_one())


def retry_dead(connection: Connection, tenant: str | None, letter_id: str, now_us: int) -> Retried:
    """Store the reward if its exchange has come by now, else let it wait once more. It counts from now on: a batch that was trained
    before has not seen it.

    Raises:
        NotFound: no such letter.
    """
    where = [dead_letter.c.kind == _REWARD, dead_letter.c.letter_id == letter_id]
    if tenant is not None:
        where.append(dead_letter.c.tenant == tenant)
    found = connection.execute(select(dead_letter).where(*where)).first()
    if found is None:
        raise NotFound(f"no dead letter {letter_id}; `headrace feedback dead` lists them")
    row = msgspec.structs.replace(msgspec.msgpack.decode(found.body, type=RewardRow), received_us=now_us)
    connection.execute(delete(dead_letter).where(dead_letter.c.tenant == found.tenant, dead_letter.c.letter_id == letter_id))
    same = (event.c.tenant == row.tenant, event.c.event_id == event_of(row.target_kind, row.target_id))
    trajectory_id = connection.execute(select(event.c.trajectory_id).where(*same)).scalar()
    if trajectory_id is None:
        add_pending(connection, row)
        return Retried(letter_id, "pending")
    insert_reward(connection, msgspec.structs.replace(row, trajectory_id=trajectory_id))
    return Retried(letter_id, "stored")


def _shown(row: Any, body: RewardRow) -> DeadLetter:
    named = {"letter_id": row.letter_id, "tenant": row.tenant, "target_id": body.target_id, "name": body.name, "value": body.value}
    rest = {"source": body.source, "reason": row.reason, "received_us": body.received_us, "created_us": row.created_us}
    return msgspec.convert(named | rest, DeadLetter)

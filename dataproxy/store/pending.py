"""Rewards that came before their exchange: kept durably, settled in the transaction that stores the event."""

from collections.abc import Sequence

import msgspec
from sqlalchemy import Connection, delete, select

from atdp.rewards import event_of
from dataproxy.store.dialect import find_all
from dataproxy.store.rewards import RewardRow, insert_reward
from dataproxy.store.schema import dead_letter, event, pending_reward


def add_pending(connection: Connection, row: RewardRow) -> None:
    """Keep ``row`` until the event that it targets is stored."""
    connection.execute(
        pending_reward.insert().values(
            tenant=row.tenant,
            reward_id=row.reward_id,
            event_id=event_of(row.target_kind, row.target_id),
            idempotency_key=row.idempotency_key,
            body=msgspec.msgpack.encode(row),
            received_us=row.received_us,
        )
    )


def find_pending(connection: Connection, tenant: str, key: str) -> RewardRow | None:
    """The reward that waits under idempotency ``key``."""
    where = (pending_reward.c.tenant == tenant, pending_reward.c.idempotency_key == key)
    body = connection.execute(select(pending_reward.c.body).where(*where)).scalar()
    return msgspec.msgpack.decode(body, type=RewardRow) if body is not None else None


def settle_pending(connection: Connection, events: Sequence[tuple[str, str]]) -> int:
    """Store the rewards that waited for ``events`` (tenant, event id), which are stored by now; gives their number."""
    stored = set(events)
    found = find_all(connection, pending_reward, ["tenant", "event_id", "body"], "event_id", [event_id for _, event_id in events])
    bodies = [body for owner, event_id, body in found if (owner, event_id) in stored]
    for body in bodies:
        _settle(connection, msgspec.msgpack.decode(body, type=RewardRow))
    return len(bodies)


def _settle(connection: Connection, row: RewardRow) -> None:
    where = (event.c.tenant == row.tenant, event.c.event_id == event_of(row.target_kind, row.target_id))
    trajectory_id = connection.execute(select(event.c.trajectory_id).where(*where)).scalar_one()
    insert_reward(connection, msgspec.structs.replace(row, trajectory_id=trajectory_id))
    connection.execute(
        delete(pending_reward).where(pending_reward.c.tenant == row.tenant, pending_reward.c.reward_id == row.reward_id)
    )


def expire_pending(connection: Connection, before_us: int, now_us: int) -> int:
    """Move rewards that have waited since before ``before_us`` to the dead letters; gives their number."""
    rows = connection.execute(select(pending_reward).where(pending_reward.c.received_us < before_us)).all()
    for row in rows:
        letter = {"tenant": row.tenant, "letter_id": row.reward_id, "kind": "reward", "reason": "event never came"}
        connection.execute(dead_letter.insert().values(**letter, body=row.body, created_us=now_us))
        connection.execute(
            delete(pending_reward).where(pending_reward.c.tenant == row.tenant, pending_reward.c.reward_id == row.reward_id)
        )
    return len(rows)

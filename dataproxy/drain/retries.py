"""Retries: the same body sent again by an SDK that says so. Equal bodies alone are no retry: best-of-n is meant."""

from collections.abc import Sequence

from sqlalchemy import Connection, case, func, select

from dataproxy.drain.govern import Governed
from dataproxy.store.schema import eligibility, event


def earlier_attempts(connection: Connection, governed: Sequence[Governed]) -> dict[str, tuple[str, bool]]:
    """For each retry in ``governed`` whose first attempt is known: (that event's id, whether it trains)."""
    found: dict[str, tuple[str, bool]] = {}
    in_batch: dict[tuple[str, str, bytes], tuple[str, bool]] = {}
    for item in governed:
        call, digest = item.call, item.event.request_digest
        if digest is None:
            continue
        key = (call.tenant, call.agent, digest)
        if item.is_retry and (attempt := in_batch.get(key) or _stored(connection, key)) is not None:
            found[call.event_id] = attempt
        in_batch.setdefault(key, (call.event_id, call.num_eligible > 0))
    return found


def _stored(connection: Connection, key: tuple[str, str, bytes]) -> tuple[str, bool] | None:
    joined = event.outerjoin(eligibility, (eligibility.c.tenant == event.c.tenant) & (eligibility.c.event_id == event.c.event_id))
    query = (
        select(event.c.event_id, func.max(case((eligibility.c.eligible, 1), else_=0)))
        .select_from(joined)
        .where(event.c.tenant == key[0], event.c.agent == key[1], event.c.request_digest == key[2])
        .group_by(event.c.event_id)
        .order_by(event.c.event_id.desc())
        .limit(1)
    )
    row = connection.execute(query).first()
    return (row[0], bool(row[1])) if row is not None else None

"""What lies in the quarantine, and whether it was stored since: rows stay when their exchange is governed after all."""

from collections.abc import Sequence

from sqlalchemy import Connection, func, select

from dataproxy.client.types import Quarantined
from dataproxy.store.schema import event, quarantine


def list_quarantined(connection: Connection, tenant: str | None, limit: int, reason: str = "") -> list[Quarantined]:
    """Up to ``limit`` rows of ``tenant`` (None: of all), newest first; of one ``reason`` if given."""
    joined = quarantine.outerjoin(event, (event.c.tenant == quarantine.c.tenant) & (event.c.event_id == quarantine.c.event_id))
    columns = (quarantine.c.tenant, quarantine.c.event_id, quarantine.c.reason, quarantine.c.created_us)
    query = (
        select(*columns, func.length(quarantine.c.sealed), event.c.event_id.is_not(None))
        .select_from(joined)
        .order_by(quarantine.c.created_us.desc(), quarantine.c.event_id)
        .limit(limit)
    )
    if tenant is not None:
        query = query.where(quarantine.c.tenant == tenant)
    if reason:
        query = query.where(quarantine.c.reason == reason)
    return [Quarantined(*row) for row in connection.execute(query)]


def sealed_rows(connection: Connection, tenant: str | None, event_ids: Sequence[str]) -> dict[str, tuple[str, bytes]]:
    """(tenant, sealed) of those of ``event_ids`` that are in the quarantine of ``tenant`` (None: of anybody)."""
    query = select(quarantine.c.event_id, quarantine.c.tenant, quarantine.c.sealed).where(quarantine.c.event_id.in_(event_ids))
    if tenant is not None:
        query = query.where(quarantine.c.tenant == tenant)
    return {row.event_id: (row.tenant, row.sealed) for row in connection.execute(query)}

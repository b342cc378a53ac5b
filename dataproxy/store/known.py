"""Which of some ids are stored already, inside one tenant: another's ids are nobody's concern."""

from collections.abc import Sequence

from sqlalchemy import Connection, select

from dataproxy.store.schema import event

_CHUNK = 500


def stored_among(connection: Connection, tenant: str, event_ids: Sequence[str]) -> set[str]:
    """Those of ``event_ids`` that ``tenant`` has events of."""
    found: set[str] = set()
    for start in range(0, len(event_ids), _CHUNK):
        where = (event.c.tenant == tenant, event.c.event_id.in_(event_ids[start : start + _CHUNK]))
        found.update(connection.execute(select(event.c.event_id).where(*where)).scalars())
    return found

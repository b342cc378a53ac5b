"""Which of some ids are stored already: an event's inside one tenant, whose ids are nobody else's concern; an exchange's of all."""

from collections.abc import Sequence

from sqlalchemy import Connection, select

from dataproxy.store.dialect import find_all
from dataproxy.store.schema import event, quarantine

_CHUNK = 500
GATEWAY = "gateway"
"""The boundary of an exchange that a gateway journaled."""
MESSAGES = "messages"
"""The boundary of an event that the data proxy made of messages: its own spans are copies of theirs, and count once with them."""


def stored_among(connection: Connection, tenant: str, event_ids: Sequence[str]) -> set[str]:
    """Those of ``event_ids`` that ``tenant`` has events of."""
    found: set[str] = set()
    for start in range(0, len(event_ids), _CHUNK):
        where = (event.c.tenant == tenant, event.c.event_id.in_(event_ids[start : start + _CHUNK]))
        found.update(connection.execute(select(event.c.event_id).where(*where)).scalars())
    return found


def known_exchanges(connection: Connection, event_ids: Sequence[str]) -> tuple[set[str], set[tuple[str, str]]]:
    """Of ``event_ids``, made by gateways: those stored or quarantined as exchanges, and (tenant, id) of other events."""
    stored = list(find_all(connection, event, ["tenant", "event_id", "boundary"], "event_id", event_ids))
    known = {event_id for _, event_id, boundary in stored if boundary == GATEWAY}
    known.update(row[0] for row in find_all(connection, quarantine, ["event_id"], "event_id", event_ids))
    return known, {(tenant, event_id) for tenant, event_id, boundary in stored if boundary != GATEWAY}

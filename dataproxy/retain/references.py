"""Which contents a set of events names, and which of those other events name too. Bodies are the only place where that stands.

A scan of a tenant's events: seconds for a million. It is done on a snapshot first, so that the write transaction has only what came
since to look at.
"""

from collections.abc import Sequence

from sqlalchemy import Connection, func, select

from dataproxy.retain.targets import chunks
from dataproxy.store.reading import body_of, named_contents
from dataproxy.store.schema import content, event

_PAGE = 1000


def contents_of(connection: Connection, tenant: str, event_ids: Sequence[str]) -> set[bytes]:
    """Digests of the contents that ``event_ids`` name or were first to store."""
    found: set[bytes] = set()
    for chunk in chunks(event_ids):
        where = (event.c.tenant == tenant, event.c.event_id.in_(chunk))
        for packed in connection.execute(select(event.c.body).where(*where)).scalars():
            found.update(digest for digest, _ in named_contents(body_of(packed)))
        owned = select(content.c.digest).where(content.c.tenant == tenant, content.c.owner.in_(chunk))
        found.update(connection.execute(owned).scalars())
    return found


def shared_contents(
    connection: Connection, tenant: str, digests: set[bytes], going: set[str], after: int = 0
) -> tuple[set[bytes], int]:
    """Those of ``digests`` that events after position ``after`` name which are not ``going``; and the last position of all."""
    shared: set[bytes] = set()
    last = after
    newest = connection.execute(select(func.max(event.c.position))).scalar() or 0
    while True:
        where = (event.c.tenant == tenant, event.c.position > last)
        query = select(event.c.position, event.c.event_id, event.c.body).where(*where).order_by(event.c.position).limit(_PAGE)
        rows = connection.execute(query).all()
        for row in rows:
            if row.event_id not in going:
                shared.update(digest for digest, _ in named_contents(body_of(row.body)) if digest in digests)
        if len(rows) < _PAGE:
            return shared, newest
        last = rows[-1].position

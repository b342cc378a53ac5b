"""Taking a store that is older than its ledger into it: every row as it stands gets a leaf, in the order it was stored.

From then on its rows are proven like any other; what happened to them before, nobody can tell.
"""

from collections.abc import Iterator

from sqlalchemy import Connection, func, select

from dataproxy.ledger.leaf import Leaf
from dataproxy.ledger.log import append
from dataproxy.ledger.rows import PLAIN, row_leaf
from dataproxy.ledger.stored import raw_rows, stored_contents
from dataproxy.store.schema import content, event, log_head

_CHUNK = 500


def adopt(connection: Connection) -> int:
    """Give every row a leaf unless the ledger has begun; gives their number."""
    if connection.execute(select(func.count()).select_from(log_head)).scalar_one():
        return 0
    num = 0
    for leaves in (*_events(connection), *_contents(connection), *_plain(connection)):
        append(connection, leaves)
        num += len(leaves)
    return num


def _events(connection: Connection) -> Iterator[list[Leaf]]:
    query = select(event.c.tenant, event.c.event_id, event.c.trajectory_id, event.c.position).order_by(event.c.position)
    rows = connection.execute(query).all()
    for start in range(0, len(rows), _CHUNK):
        chunk = rows[start : start + _CHUNK]
        for tenant in sorted({row.tenant for row in chunk}):
            mine = [row for row in chunk if row.tenant == tenant]
            proven = stored_contents(connection, tenant, "event", [row.event_id for row in mine], 0)
            yield [Leaf(tenant, "event", row.event_id, row.trajectory_id, proven[row.event_id]) for row in mine]


def _contents(connection: Connection) -> Iterator[list[Leaf]]:
    for tenant in connection.execute(select(content.c.tenant).distinct().order_by(content.c.tenant)).scalars().all():
        keys = [digest.hex() for digest in connection.execute(select(content.c.digest).where(content.c.tenant == tenant)).scalars()]
        proven = stored_contents(connection, tenant, "content", keys, 0)
        yield [Leaf(tenant, "content", key, "", proven[key]) for key in keys]


def _plain(connection: Connection) -> Iterator[list[Leaf]]:
    for kind in PLAIN.values():
        rows = list(raw_rows(connection, kind.table))
        for start in range(0, len(rows), _CHUNK):
            yield [row_leaf(kind, row) for row in rows[start : start + _CHUNK]]

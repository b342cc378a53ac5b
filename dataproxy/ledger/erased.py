"""What an erasure's leaf commits to: its own row, and of each row that it emptied the tombstone and what was left.

So the tree goes on to prove that rows were erased, and that what is left of them is what the erasure left.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

import msgspec
from sqlalchemy import Connection, select
from sqlalchemy import Row as SelectedRow

from dataproxy.ledger.content import Row, row_content
from dataproxy.ledger.leaf import part
from dataproxy.ledger.stored import raw_rows, stored_contents
from dataproxy.store.schema import erasure, tombstone

LeafRow: TypeAlias = SelectedRow[Any]
_CHUNK = 200


def erasure_contents(connection: Connection, tenant: str, erasure_ids: Sequence[str], base_position: int) -> dict[str, bytes]:
    """Erasure → its leaf's content, of those that are there."""
    rows = raw_rows(connection, erasure, erasure.c.tenant == tenant, erasure.c.erasure_id.in_(erasure_ids))
    return {row["erasure_id"]: _content(connection, tenant, row, base_position) for row in list(rows)}


def erasures_of(connection: Connection, tenant: str, leaves: Iterable[LeafRow]) -> dict[int, str]:
    """Leaf index → erasure, of those of ``leaves`` (rows of ``log_leaf``) whose rows were erased."""
    keys: dict[str, list[str]] = defaultdict(list)
    indexes = set[int]()
    for leaf in leaves:
        keys[leaf.kind].append(leaf.row_key)
        indexes.add(leaf.leaf_index)
    found: dict[int, str] = {}
    for kind, named in keys.items():
        for start in range(0, len(named), _CHUNK):
            mine = (tombstone.c.tenant == tenant, tombstone.c.kind == kind, tombstone.c.row_key.in_(named[start : start + _CHUNK]))
            query = select(tombstone.c.leaf_index, tombstone.c.erasure_id).where(*mine)
            found |= {row.leaf_index: row.erasure_id for row in connection.execute(query) if row.leaf_index in indexes}
    return found


def tombstones(connection: Connection, tenant: str, erasure_id: str) -> list[Row]:
    """Those of one erasure, in the order of their leaves."""
    mine = (tombstone.c.tenant == tenant, tombstone.c.erasure_id == erasure_id)
    return sorted(raw_rows(connection, tombstone, *mine, by_key=False), key=lambda stone: stone["leaf_index"])


def _content(connection: Connection, tenant: str, row: Row, base_position: int) -> bytes:
    stones = tombstones(connection, tenant, row["erasure_id"])
    left: dict[tuple[str, str], bytes] = {}
    for kind in sorted({stone["kind"] for stone in stones} - {"content"}):  # of a text nothing is left
        keys = [stone["row_key"] for stone in stones if stone["kind"] == kind]
        found = stored_contents(connection, tenant, kind, keys, base_position)
        left |= {(kind, key): data for key, data in found.items()}
    parts = [row_content(erasure, row)]
    for stone in stones:
        name = [stone["leaf_index"], stone["kind"], stone["row_key"]]
        parts.append(part(b"tombstone", msgspec.json.encode(name)))
        parts.append(part(b"left", left.get((stone["kind"], stone["row_key"]), b"")))
    return b"".join(parts)

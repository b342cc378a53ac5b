"""Rows read back as the contents that their leaves commit to, many at a time.

Values are taken as the driver gives them, so that nothing which was changed is mended on the way.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any

import zstandard
from sqlalchemy import Connection, Table, select, type_coerce
from sqlalchemy.types import NullType

from dataproxy.ledger.content import ARRAYS, OwnedContent, OwnedTokens, Row, content_content, event_content, row_content
from dataproxy.ledger.leaf import with_position
from dataproxy.ledger.rows import PLAIN, key_of
from dataproxy.store.compression import decompress
from dataproxy.store.schema import content, content_span, eligibility, event, event_span, token_segment

UNREADABLE = b"\0unreadable"
"""Stands for the content of a row that holds something nobody could have written."""

_NOT_READ = (zstandard.ZstdError, FileNotFoundError, TypeError, ValueError, AttributeError, MemoryError)
_CHUNK = 200


def stored_contents(connection: Connection, tenant: str, kind: str, keys: Sequence[str], base_position: int) -> dict[str, bytes]:
    """Row key → content of those rows of ``kind`` that are there; ``kind`` is "event", "content" or a plain table."""
    found: dict[str, bytes] = {}
    for start in range(0, len(keys), _CHUNK):
        chunk = keys[start : start + _CHUNK]
        if kind == "event":
            found |= _events(connection, tenant, chunk, base_position)
        elif kind == "content":
            found |= _contents(connection, tenant, chunk)
        elif kind in PLAIN:
            found |= _plain(connection, tenant, kind, chunk)
    return found


def raw_rows(connection: Connection, table: Table, *where: Any, by_key: bool = True) -> Iterator[Row]:
    """Rows of ``table`` as the driver gives them, ``by_key`` in the order of their keys.

    Sort them yourself where ``where`` asks for other columns: for the order SQLite would go through all keys of a tenant.
    """
    columns = [type_coerce(column, NullType()).label(column.name) for column in table.columns]
    query = select(*columns).where(*where)
    rows = connection.execute(query.order_by(*table.primary_key) if by_key else query).mappings()
    return (dict(row) for row in rows)


def _plain(connection: Connection, tenant: str, kind: str, keys: Sequence[str]) -> dict[str, bytes]:
    plain, wanted = PLAIN[kind], set(keys)
    first = plain.table.c[plain.key[0]]
    values = {key.rsplit("/", len(plain.key) - 1)[0] for key in keys}
    named = first.in_([int(value) for value in values] if first.type.python_type is int else list(values))
    rows = raw_rows(connection, plain.table, plain.table.c.tenant == tenant, named)
    return {key: _read(partial(row_content, plain.table, row)) for row in rows if (key := key_of(plain, row)) in wanted}


def _contents(connection: Connection, tenant: str, keys: Sequence[str]) -> dict[str, bytes]:
    named = {bytes.fromhex(key.partition("/")[0]): key for key in keys}
    owned = _by_owner(connection, tenant, content.c.digest.in_(named))
    return {named[one.digest]: content_content(one) for one in owned[""]}


def _events(connection: Connection, tenant: str, ids: Sequence[str], base_position: int) -> dict[str, bytes]:
    def hanging(table: Table) -> dict[str, list[Row]]:
        rows = defaultdict(list)
        for row in raw_rows(connection, table, table.c.tenant == tenant, table.c.event_id.in_(ids)):
            rows[row["event_id"]].append(row)
        return rows

    spans, decisions, tokens = hanging(event_span), hanging(eligibility), hanging(token_segment)
    contents = _by_owner(connection, tenant, content.c.owner.in_(ids))
    found = {}
    for row in raw_rows(connection, event, event.c.tenant == tenant, event.c.event_id.in_(ids)):
        key = row["event_id"]
        found[key] = _read(partial(_event, row, spans[key], decisions[key], tokens[key], contents[key], base_position))
    return found


def _event(
    row: Row, spans: list[Row], decisions: list[Row], tokens: list[Row], contents: list[OwnedContent], base_position: int
) -> bytes:
    owned = [OwnedTokens(item, [decompress(item[name]) for name in ARRAYS]) for item in tokens]
    proven = event_content(row, decompress(row["body"]), spans, decisions, owned, contents)
    return with_position(proven, row["position"] - base_position)


def _by_owner(connection: Connection, tenant: str, where: Any) -> dict[str, list[OwnedContent]]:
    """Owner → its contents, in the order of their digests."""
    rows = list(raw_rows(connection, content, content.c.tenant == tenant, where, by_key=False))
    rows.sort(key=lambda row: (type(row["digest"]).__name__, row["digest"]))  # whatever somebody may have put there
    spans: dict[bytes, list[Row]] = defaultdict(list)
    for chunk in _chunks([row["digest"] for row in rows]):
        for span in raw_rows(connection, content_span, content_span.c.tenant == tenant, content_span.c.digest.in_(chunk)):
            spans[span["digest"]].append(span)
    found: dict[str, list[OwnedContent]] = defaultdict(list)
    for row in rows:
        data = _read(partial(decompress, row["data"]))
        found[row["owner"]].append(OwnedContent(row["digest"], data, spans[row["digest"]]))
    return found


def _read(read: Callable[[], bytes]) -> bytes:
    try:
        return read()
    except _NOT_READ:
        return UNREADABLE


def _chunks(items: Sequence[bytes]) -> Iterable[Sequence[bytes]]:
    return (items[start : start + _CHUNK] for start in range(0, len(items), _CHUNK))

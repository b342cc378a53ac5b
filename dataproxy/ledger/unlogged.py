"""Rows that no leaf knows, and leaves' companions that are too many: what was put into the store behind the log's back."""

from collections.abc import Iterator
from functools import reduce
from typing import Any

from sqlalchemy import ColumnElement, Connection, String, and_, cast, exists, func, select

from dataproxy.client.review_types import AuditProblem
from dataproxy.ledger.rows import PLAIN
from dataproxy.store.schema import (
    content,
    content_span,
    eligibility,
    erasure,
    event,
    event_span,
    log_leaf,
    log_salt,
    token_segment,
    tombstone,
)

HANGING = (event_span, eligibility, token_segment)
"""Tables whose rows hang on an event: its leaf answers for them."""
_NO_LEAF = "the row has no leaf in the log"


def unlogged_rows(connection: Connection, tenant: str) -> Iterator[AuditProblem]:
    """One of each table, if there is one."""
    for kind in PLAIN.values():
        yield from _without_leaf(connection, tenant, kind.table, _key(kind.table, kind.key))
    yield from _without_leaf(connection, tenant, event, event.c.event_id)
    yield from _without_leaf(connection, tenant, erasure, erasure.c.erasure_id)
    for table in HANGING:
        owned = exists().where(event.c.tenant == table.c.tenant, event.c.event_id == table.c.event_id)
        yield from _first(connection, tenant, table, table.c.event_id, ~owned, "it belongs to an event that is not there")
    yield from _loose_contents(connection, tenant)
    yield from _tombstones_and_salts(connection, tenant)


def _loose_contents(connection: Connection, tenant: str) -> Iterator[AuditProblem]:
    owned = _leaf_of(content, "event", content.c.owner)
    loose = and_(content.c.owner != "", ~owned)
    yield from _first(connection, tenant, content, content.c.digest, loose, "it belongs to an event that has no leaf")
    alone = select(content.c.digest).where(content.c.tenant == tenant, content.c.owner == "")
    keys = select(log_leaf.c.row_key).where(log_leaf.c.tenant == tenant, log_leaf.c.kind == "content")
    known = {key.partition("/")[0] for key in connection.execute(keys).scalars()}
    extra = {digest.hex() for digest in connection.execute(alone).scalars()} - known
    if extra:
        yield AuditProblem(tenant, "content", min(extra), _NO_LEAF)
    kept = exists().where(content.c.tenant == content_span.c.tenant, content.c.digest == content_span.c.digest)
    what = "it belongs to a content that is not there"
    yield from _first(connection, tenant, content_span, content_span.c.digest, ~kept, what)


def _tombstones_and_salts(connection: Connection, tenant: str) -> Iterator[AuditProblem]:
    named = exists().where(
        log_leaf.c.tenant == tombstone.c.tenant,
        log_leaf.c.leaf_index == tombstone.c.leaf_index,
        log_leaf.c.kind == tombstone.c.kind,
        log_leaf.c.row_key == tombstone.c.row_key,
    )
    erased = _leaf_of(tombstone, "erasure", tombstone.c.erasure_id)
    what = "there is no such leaf, or no such erasure in the log"
    yield from _first(connection, tenant, tombstone, tombstone.c.row_key, ~and_(named, erased), what)
    leaf = exists().where(log_leaf.c.tenant == log_salt.c.tenant, log_leaf.c.leaf_index == log_salt.c.leaf_index)
    yield from _first(connection, tenant, log_salt, log_salt.c.leaf_index, ~leaf, "there is no such leaf")


def _without_leaf(connection: Connection, tenant: str, table: Any, key: ColumnElement[str]) -> Iterator[AuditProblem]:
    return _first(connection, tenant, table, key, ~_leaf_of(table, table.name, key), _NO_LEAF)


def _leaf_of(table: Any, kind: str, key: ColumnElement[str]) -> ColumnElement[bool]:
    return exists().where(log_leaf.c.tenant == table.c.tenant, log_leaf.c.kind == kind, log_leaf.c.row_key == key)


def _first(
    connection: Connection, tenant: str, table: Any, key: ColumnElement[Any], wrong: ColumnElement[bool], what: str
) -> Iterator[AuditProblem]:
    where = (table.c.tenant == tenant, wrong)
    found = connection.execute(select(key).where(*where).order_by(key).limit(1)).scalar()
    if found is not None:
        num = connection.execute(select(func.count()).select_from(table).where(*where)).scalar_one()
        more = f"; {num - 1} more like it" if num > 1 else ""
        yield AuditProblem(tenant, table.name, found.hex() if isinstance(found, bytes) else str(found), what + more)


def _key(table: Any, columns: tuple[str, ...]) -> ColumnElement[str]:
    parts = [cast(table.c[name], String) for name in columns]
    joined: ColumnElement[str] = reduce(lambda left, right: left + "/" + right, parts)
    return joined

"""Who read what: the log in its own order for audits, and newest first for people."""

from collections.abc import Mapping

from sqlalchemy import Connection, select

from dataproxy.client.review_types import AccessPage, AccessRow
from dataproxy.store.schema import access_log

_COLUMNS = {"reader": access_log.c.key_id, "target": access_log.c.target, "what": access_log.c.what}


def page_of_reads(connection: Connection, tenant: str | None, fields: Mapping[str, str], before: str, limit: int) -> AccessPage:
    """Reads of ``tenant``'s things (None: of anybody's) before event ``before`` ("": the newest).

    ``fields`` may say the ``reader`` (key id), ``target`` and ``what``; "": any.
    """
    query = select(access_log).order_by(access_log.c.event_id.desc()).limit(limit)
    if tenant is not None:
        query = query.where(access_log.c.tenant == tenant)
    if before:
        query = query.where(access_log.c.event_id < before)
    for name, value in fields.items():
        if value:
            query = query.where(_COLUMNS[name] == value)
    rows = [AccessRow(**row._mapping) for row in connection.execute(query)]
    return AccessPage(rows, rows[-1].event_id if len(rows) == limit else None)


def read_log(
    connection: Connection, tenant: str | None, reader: str | None, target: str | None, after: str, limit: int
) -> AccessPage:
    """Reads of ``tenant``'s things (None: of anybody's) after event ``after`` ("": from the first), oldest first.

    ``reader`` is a key id, ``target`` what was read; None: any.
    """
    query = select(access_log).where(access_log.c.event_id > after).order_by(access_log.c.event_id).limit(limit)
    for column, value in ((access_log.c.tenant, tenant), (access_log.c.key_id, reader), (access_log.c.target, target)):
        query = query if value is None else query.where(column == value)
    rows = [AccessRow(**row._mapping) for row in connection.execute(query)]
    return AccessPage(rows, rows[-1].event_id if len(rows) == limit else None)

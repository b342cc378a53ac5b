"""Who read what, newest first, for people; audits read the log in its own order."""

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

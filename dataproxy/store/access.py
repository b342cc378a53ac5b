"""Reads are events too: written and committed before a byte of what was read leaves the process."""

from typing import Literal

from sqlalchemy import Connection

from atdp.events import Event
from atdp.ids import new_event_id
from dataproxy.client.types import KeyInfo
from dataproxy.ledger.rows import append_rows
from dataproxy.store.events import StoredEvent, insert_events, next_position
from dataproxy.store.schema import access_log

What = Literal[
    "access_log", "audit", "batch", "console", "event", "events", "evidence", "export of events", "export of trajectories",
    "key limited", "key made", "key revoked", "proof", "quarantine", "review", "search", "tenant export", "tenant import",
    "tokens", "trajectories", "trajectory", "vault", "version",
]  # fmt: skip
"""Every kind of thing that is read, or done with keys and sittings, as the log names it."""


def record_access(
    connection: Connection, reader: KeyInfo, tenant: str, what: What, target: str, now_us: int, purpose: str = ""
) -> None:
    """``reader`` is about to read ``what`` (a kind of thing) named ``target`` of ``tenant``, for ``purpose`` (redacted)."""
    event_id = new_event_id()
    access = Event(
        event_id=event_id,
        tenant=tenant,
        agent=reader.agent,
        kind="access",
        started_at=now_us,
        ended_at=now_us,
        boundary="api",
        a={"what": what, "target": target},
        m={"key_id": reader.key_id, "role": reader.role, "purpose": purpose},
    )
    insert_events(connection, [(StoredEvent(event=access), None)], next_position(connection))
    who = {"tenant": tenant, "event_id": event_id, "key_id": reader.key_id, "role": reader.role}
    row = who | {"what": what, "target": target[:128], "at_us": now_us, "purpose": purpose}
    connection.execute(access_log.insert().values(row))
    append_rows(connection, access_log, [row])

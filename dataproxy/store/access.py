"""Reads are events too: written and committed before a byte of what was read leaves the process."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Literal

from sqlalchemy import Connection

from atdp.events import Event
from atdp.ids import new_event_id
from dataproxy.client.types import KeyInfo
from dataproxy.ledger.rows import append_rows
from dataproxy.store.events import StoredEvent, insert_events, next_position
from dataproxy.store.schema import access_log

What = Literal[
    "access_log", "agents", "approvals", "audit", "batch", "console", "consents", "dead letters", "erasure preview", "event",
    "events", "evidence", "export of events", "export of trajectories", "holds", "key limited", "key made", "key revoked", "keys",
    "lease", "page", "proof", "quarantine", "recording", "redaction", "retention", "review", "rules set", "search",
    "tenant export", "tenant import", "tenants", "tokens", "trajectories", "trajectory", "vault", "version", "view kept",
    "view removed", "views",
]  # fmt: skip
"""Every kind of thing that is read, or done with keys, sittings, views and agents' rules, as the log names it.

A "page" is one that names nothing else: its target is the address.
"""

_gathered: ContextVar[list[What] | None] = ContextVar("headrace_reads", default=None)


@contextmanager
def gathered() -> Iterator[list[What]]:
    """Fills with what is put on record until the block ends, here or in a thread that works for it."""
    reads: list[What] = []
    token = _gathered.set(reads)
    try:
        yield reads
    finally:
        _gathered.reset(token)


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
    if (reads := _gathered.get()) is not None:
        reads.append(what)

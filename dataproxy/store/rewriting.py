"""Takes what was deleted or blanked on PostgreSQL out of the tables' files: live rows are written to new files, the old ones go.

A deleted row's bytes stay in its page until another row takes their place, and ``VACUUM`` alone changes nothing about that;
``VACUUM FULL`` does. It needs the tables' owner, and has each table to itself for as long. The write-ahead log is the server's.
"""

import re
from contextlib import AbstractContextManager

import psycopg
from psycopg.errors import Diagnostic, LockNotAvailable
from sqlalchemy import Connection, text
from sqlalchemy.exc import OperationalError

_WHOLE = (
    "content",
    "content_span",
    "conversation_end",
    "dead_letter",
    "judgement",
    "log_salt",
    "pending_reward",
    "reward",
    "saved_view",
    "vault_key",
    "vault_segment",
)
"""What erasure and the end of a vault's key delete from or blank, beside the tables that have a partition a month."""
_BY_MONTH = ("event", "event_span", "token_segment")
_LOCK_MS = 200
MOST_AT_ONCE = 100_000_000
"""Bytes of tables that are written anew while somebody waits: a second or a few."""
_KEPT = re.compile(r"\d+")
_ERASED = text(
    "SELECT e.tableoid::regclass::text, count(*) FROM event e JOIN tombstone t "
    "ON t.tenant = e.tenant AND t.kind = 'event' AND t.row_key = e.event_id GROUP BY 1"
)


class Rewriter:
    """Remembers which months were written anew since something of them was erased; after a start none is known to be."""

    def __init__(self) -> None:
        self._done: dict[str, int] = {}

    def rewrite(self, owner: Connection, writers: AbstractContextManager[object], at_once: bool) -> bool:
        """Write every table that erasure has been at anew. ``owner`` is in autocommit; ``writers`` keeps those of this process out.

        False: a table was in use, a reader may still see what is gone, or they are too large for somebody who waits (``at_once``);
        all of it is done again the next time.
        """
        erased = self._erased(owner)
        months = [leaf for leaf, num in erased.items() if self._done.get(leaf) != num]
        parts = [f"{table}{leaf.removeprefix('event')}" for leaf in months for table in _BY_MONTH]
        if at_once and self._size_bytes(owner, parts) > MOST_AT_ONCE:
            return False
        kept: list[int] = []

        def note(said: Diagnostic) -> None:
            if said.message_detail and (number := _KEPT.search(said.message_detail)):
                kept.append(int(number.group()))  # "… dead row versions cannot be removed yet", in whatever language

        raw: psycopg.Connection = owner.connection.driver_connection  # type: ignore[assignment]  # of this dialect
        raw.add_notice_handler(note)
        try:
            owner.exec_driver_sql(f"SET lock_timeout = {_LOCK_MS}")
            for table in (*_WHOLE, *parts):
                with writers:
                    owner.exec_driver_sql(f"VACUUM (FULL, VERBOSE) {table}")
        except OperationalError as error:
            if isinstance(error.orig, LockNotAvailable):
                return False
            raise
        finally:
            raw.remove_notice_handler(note)
            owner.exec_driver_sql("RESET lock_timeout")
        if any(kept):
            return False
        self._done |= {leaf: erased[leaf] for leaf in months}
        return True

    def _size_bytes(self, owner: Connection, parts: list[str]) -> int:
        sizes = text("SELECT coalesce(sum(pg_total_relation_size(name::regclass)), 0) FROM unnest(CAST(:names AS text[])) AS name")
        return int(owner.execute(sizes, {"names": [*_WHOLE, *parts]}).scalar_one())

    def _erased(self, owner: Connection) -> dict[str, int]:
        """Partition of ``event`` → how many of its events are erased; they only ever become more."""
        owner.exec_driver_sql("SET headrace.operator = 'on'")
        try:
            return {str(leaf): int(num) for leaf, num in owner.execute(_ERASED)}
        finally:
            owner.exec_driver_sql("RESET headrace.operator")

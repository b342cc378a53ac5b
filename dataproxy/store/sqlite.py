"""SQLite as the store's database: one file, WAL, every commit synced, deleted bytes overwritten, one process by a lock file.

Whose rows a transaction touches is up to its questions here; the file belongs to the data proxy and nobody else opens it.
"""

import fcntl
import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, create_engine, event

from dataproxy.errors import StoreLocked
from dataproxy.store.scope import Scope

_PRAGMAS = (
    "journal_mode=WAL",
    "synchronous=FULL",
    "secure_delete=ON",
    "foreign_keys=ON",
    "temp_store=MEMORY",
    "busy_timeout=30000",
)
_WRITER = "headrace_writer"
_PURGE_WAIT_MS = 200


class Sqlite:
    """The database in the file ``path``. Parameters never reach a log or a traceback."""

    may_migrate = may_purge = True
    purge_pause_s = 0.0

    def __init__(self, path: Path) -> None:
        """Take the file.

        Raises:
            StoreLocked: another data proxy has it open.
        """
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._lock_file = _lock(path.with_suffix(".lock"))
        path.touch(mode=0o600)
        self._engine = create_engine(f"sqlite:///{path}", hide_parameters=True)
        event.listen(self._engine, "connect", _prepare)
        event.listen(self._engine, "begin", _begin)
        self._writer = self._engine.execution_options(**{_WRITER: True})

    @contextmanager
    def read(self, scope: Scope) -> Iterator[Connection]:
        """A transaction on one snapshot."""
        with self._engine.begin() as connection:
            yield connection

    @contextmanager
    def write(self, scope: Scope) -> Iterator[Connection]:
        """A transaction that takes the write lock when it begins, so that none fails half-way for it."""
        with self._writer.begin() as connection:
            yield connection

    @contextmanager
    def migration(self) -> Iterator[Connection]:
        """A transaction that may change tables."""
        with self._writer.begin() as connection:
            yield connection

    def purge(self, writers: AbstractContextManager[object], at_once: bool) -> bool:
        """Fold the write-ahead log into the file and empty it. Pages were overwritten when their rows were deleted (secure_delete).

        A long read is not waited for: ``writers``, kept out meanwhile, would wait as well.
        """
        with writers, self._engine.connect() as connection:
            connection.exec_driver_sql(f"PRAGMA busy_timeout={_PURGE_WAIT_MS}")
            try:
                busy = connection.exec_driver_sql("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
            finally:
                connection.exec_driver_sql("PRAGMA busy_timeout=30000")
        return busy is not None and busy[0] == 0

    def close(self) -> None:
        """Let go of the files."""
        self._engine.dispose()
        os.close(self._lock_file)


def _lock(path: Path) -> int:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        os.close(descriptor)
        raise StoreLocked(f"another data proxy has the store open ({path}); stop it first") from error
    return descriptor


def _prepare(connection: Any, _: Any) -> None:
    connection.isolation_level = None  # transactions are begun by _begin alone
    cursor = connection.cursor()
    for pragma in _PRAGMAS:
        cursor.execute(f"PRAGMA {pragma}")
    cursor.close()


def _begin(connection: Connection) -> None:
    connection.exec_driver_sql("BEGIN IMMEDIATE" if connection.get_execution_options().get(_WRITER) else "BEGIN")

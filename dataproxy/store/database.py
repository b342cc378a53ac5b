"""The store's database: opening, migrating, and the two ways into it.

One writer at a time in the process (a lock) and one process at a time (a lock file); readers run beside it. Blocking: call it from
threads, never from an event loop.
"""

import fcntl
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection

from dataproxy.errors import SchemaMismatch, StoreLocked
from dataproxy.store.compression import compress as compress
from dataproxy.store.compression import decompress as decompress
from dataproxy.store.dialect import as_writer, open_engine

T = TypeVar("T")
_MIGRATIONS = Path(__file__).parent / "migrations"


class Database:
    """The open database. ``read`` and ``write`` each give a connection inside a transaction."""

    def __init__(self, path: Path) -> None:
        """Open ``path``, making or migrating it.

        Raises:
            StoreLocked: another data proxy has it open.
            SchemaMismatch: a newer Headrace made it.
        """
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._lock_file = _lock(path.with_suffix(".lock"))
        path.touch(mode=0o600)
        self._engine = open_engine(path)
        self._writer = as_writer(self._engine)
        self._lock = threading.Lock()
        with self.write() as connection:
            _migrate(connection)

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """One consistent snapshot."""
        with self._engine.begin() as connection:
            yield connection

    @contextmanager
    def write(self) -> Iterator[Connection]:
        """The only writer, until the block ends; an exception rolls everything back."""
        with self._lock, self._writer.begin() as connection:
            yield connection

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


def _migrate(connection: Connection) -> None:
    config = Config()
    config.set_main_option("script_location", str(_MIGRATIONS).replace("%", "%%"))
    config.attributes["connection"] = connection
    known = {script.revision for script in ScriptDirectory.from_config(config).walk_revisions()}
    current = MigrationContext.configure(connection).get_current_revision()
    if current is not None and current not in known:
        raise SchemaMismatch(f"the store is at revision {current}, which this Headrace does not know; use the newer one")
    command.upgrade(config, "head")

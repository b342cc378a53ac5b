"""The store's database: opening, migrating, and the two ways into it.

One writer at a time in the process (a lock) and one process at a time (a lock file, or an advisory lock on PostgreSQL); readers run
beside it. Blocking: call it from threads, never from an event loop.
"""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import TypeVar

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection

from dataproxy.errors import SchemaMismatch
from dataproxy.store.postgres import Postgres, PostgresUrls
from dataproxy.store.scope import Scope, current_scope
from dataproxy.store.sqlite import Sqlite

T = TypeVar("T")
_MIGRATIONS = Path(__file__).parent / "migrations"


class Database:
    """The open database. ``read`` and ``write`` each give a connection inside a transaction."""

    def __init__(self, where: Path | PostgresUrls) -> None:
        """Open ``where`` (a file is SQLite), making or migrating it.

        Raises:
            StoreLocked: another data proxy has it open.
            SchemaMismatch: a newer Headrace made it, or an older one did and the owner's URL is missing.
            StoreUnreachable, StoreMisconfigured: see ``dataproxy.store.postgres``.
        """
        self._product = Sqlite(where) if isinstance(where, Path) else Postgres(where)
        self._lock, self._purging = threading.Lock(), threading.Lock()
        self.purged = True
        self._purged_s = 0.0
        try:
            self.migrate()
        except BaseException:
            self._product.close()
            raise

    @contextmanager
    def read(self, scope: Scope | None = None) -> Iterator[Connection]:
        """One consistent snapshot of the rows of ``scope``; without it, of those of the request at hand."""
        with self._product.read(scope or current_scope()) as connection:
            yield connection

    @contextmanager
    def write(self, scope: Scope | None = None) -> Iterator[Connection]:
        """The only writer, until the block ends; an exception rolls everything back. ``scope`` as for ``read``."""
        with self._lock, self._product.write(scope or current_scope()) as connection:
            yield connection

    def migrate(self, revision: str = "head") -> None:
        """Bring the tables up, or down, to ``revision`` ("base": none).

        Raises:
            SchemaMismatch: the store is of a newer Headrace, or the owner's URL is needed and missing.
        """
        with self._lock, self._product.migration() as connection:
            _migrate(connection, revision, self._product.may_migrate)

    def purge(self, at_once: bool = False) -> bool:
        """Make what was deleted unreadable in the files too; False while a reader stands in the way (``purged``): try again.

        ``at_once``: somebody waits for it, so what takes long is left to the next time.
        """
        with self._purging:
            self.purged = self._product.purge(self._lock, at_once)
            self._purged_s = time.monotonic()
        return self.purged

    def purge_again(self) -> None:
        """``purge`` if the last one did not do it, unless that was a moment ago and trying is dear."""
        if not self.purged and time.monotonic() - self._purged_s >= self._product.purge_pause_s:
            self.purge()

    @property
    def may_purge(self) -> bool:
        """Whether ``purge`` can do anything: on PostgreSQL the owner's URL has to be known."""
        return self._product.may_purge

    def close(self) -> None:
        """Let go of it."""
        self._product.close()


def _config() -> Config:
    config = Config()
    config.set_main_option("script_location", str(_MIGRATIONS).replace("%", "%%"))
    return config


@cache
def _revisions() -> tuple[str, ...]:
    """Every revision that this Headrace knows, oldest first."""
    newest_first = [item.revision for item in ScriptDirectory.from_config(_config()).walk_revisions()]
    return ("base", *reversed(newest_first))


def _migrate(connection: Connection, revision: str, may_migrate: bool) -> None:
    config = _config()
    config.attributes["connection"] = connection
    known = _revisions()
    current = MigrationContext.configure(connection).get_current_revision() or "base"
    if current not in known:
        raise SchemaMismatch(f"the store is at revision {current}, which this Headrace does not know; use the newer one")
    wanted = known[-1] if revision == "head" else revision
    if current == wanted:
        return
    if not may_migrate:
        raise SchemaMismatch(
            f"the store is at revision {current} and {wanted} is needed; start once with HEADRACE_DATAPROXY_DATABASE_OWNER_URL, "
            "the URL of the role that owns the database"
        )
    (command.upgrade if known.index(current) < known.index(wanted) else command.downgrade)(config, wanted)

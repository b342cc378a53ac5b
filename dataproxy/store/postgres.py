"""PostgreSQL as the store's database: two roles, transactions bound to whose rows they touch, one data proxy at a time.

The owner's role is used for migrations only. The data proxy's own role owns nothing, may do what ``dataproxy.store.rules`` grants,
and sees no row until a transaction says whose rows it wants.
"""

import logging
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass

import psycopg
from pydantic import SecretStr
from sqlalchemy import Connection, Engine, NullPool, create_engine, event, make_url, text
from sqlalchemy.exc import ArgumentError, OperationalError, ProgrammingError

from dataproxy.errors import StoreLocked, StoreMisconfigured, StoreUnreachable
from dataproxy.store.any_text import write_any_text
from dataproxy.store.rewriting import Rewriter
from dataproxy.store.rules import apply_rules, make_partitions
from dataproxy.store.scope import Scope

logger = logging.getLogger(__name__)
MIN_VERSION = 14
_GUARD = 0x6865616472616365  # "headrace"
_CONNECT_S = 10
_HOW = "docs/operations.md says how the two roles are made"


@dataclass(slots=True, frozen=True)
class PostgresUrls:
    """``postgresql+psycopg://role@host/database``: the data proxy's own, and the owner's where migrations may have to run."""

    app: SecretStr
    owner: SecretStr | None = None


class Postgres:
    """The database that ``urls`` name."""

    purge_pause_s = 60.0

    def __init__(self, urls: PostgresUrls) -> None:
        """Connect, check server and role, and become the one data proxy on this database.

        Raises:
            StoreUnreachable: no connection.
            StoreMisconfigured: a URL of another form, a server that is too old, or a role that nothing would hold back.
            StoreLocked: another data proxy is at work.
        """
        self._engine = _engine(urls.app)
        self._reader = self._engine.execution_options(isolation_level="REPEATABLE READ", postgresql_readonly=True)
        self._owner = _engine(urls.owner) if urls.owner is not None else None
        self._rewriter = Rewriter()
        self._partitions_of = 0
        try:
            with self._connected() as connection:
                self._role = str(connection.execute(text("SELECT current_user")).scalar_one())
                _check_version(connection)
                _check_role(connection, self._role)
            self._guard = self._take_guard()
        except BaseException:
            self._dispose()
            raise

    @contextmanager
    def read(self, scope: Scope) -> Iterator[Connection]:
        """A transaction on one snapshot, bound to ``scope``."""
        with self._reader.begin() as connection:
            _bind(connection, scope)
            yield connection

    @contextmanager
    def write(self, scope: Scope) -> Iterator[Connection]:
        """A transaction bound to ``scope``, alone among the writers of this database.

        Raises:
            StoreLocked: the server was restarted and another data proxy came first.
        """
        self._hold_guard()
        with self._engine.begin() as connection:
            connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _GUARD + 1})
            self._partitions_of = make_partitions(connection, self._partitions_of)
            _bind(connection, scope)
            yield connection

    @contextmanager
    def migration(self) -> Iterator[Connection]:
        """A transaction of the owner's, or of the data proxy's where no owner is known: that one can only look.

        When it ends well, the rules are applied to every table there is.
        """
        with self._connected(self._owner) as connection, connection.begin():
            _bind(connection, Scope(None, everybody=True))
            yield connection
            if self._owner is not None:
                apply_rules(connection, self._role)
        self._engine.dispose()  # connections remember tables as they were

    @property
    def may_migrate(self) -> bool:
        """Whether the owner is known."""
        return self._owner is not None

    @property
    def may_purge(self) -> bool:
        """Whether the owner is known: nobody else may write a table anew."""
        return self._owner is not None

    def purge(self, writers: AbstractContextManager[object], at_once: bool) -> bool:
        """Write tables that lost something anew, as their owner; False without one, or while somebody reads or writes them.

        ``at_once``: somebody waits; False too where they are large.
        """
        if self._owner is None:
            return False
        try:
            with self._connected(self._owner) as connection:
                return self._rewriter.rewrite(connection.execution_options(isolation_level="AUTOCOMMIT"), writers, at_once)
        except StoreUnreachable as error:
            logger.warning("what was erased stays in the tables' files for now: %s", error)
            return False

    def close(self) -> None:
        """Let another data proxy have it."""
        self._guard.close()
        self._dispose()

    def _dispose(self) -> None:
        self._engine.dispose()
        if self._owner is not None:
            self._owner.dispose()

    @contextmanager
    def _connected(self, engine: Engine | None = None) -> Iterator[Connection]:
        try:
            connection = (engine or self._engine).connect()
        except OperationalError as error:
            raise StoreUnreachable(f"no connection to PostgreSQL: {_first_line(error)}") from error
        with connection:
            yield connection

    def _take_guard(self) -> Connection:
        url = self._engine.url
        engine = create_engine(url, poolclass=NullPool, hide_parameters=True, isolation_level="AUTOCOMMIT")
        guard = engine.connect()
        if not guard.execute(text("SELECT pg_try_advisory_lock(:key)"), {"key": _GUARD}).scalar_one():
            guard.close()
            raise StoreLocked(f"another data proxy has the store open (database {url.database}); stop it first")
        return guard

    def _hold_guard(self) -> None:
        """Be the one data proxy still, or again after the server was away. Raises StoreLocked, OperationalError."""
        if not self._guard.closed:
            try:
                self._guard.execute(text("SELECT 1"))
                return
            except OperationalError:
                self._guard.invalidate()
                self._guard.close()
        self._guard = self._take_guard()


def _engine(url: SecretStr) -> Engine:
    try:
        parsed = make_url(url.get_secret_value())
    except ArgumentError as error:
        raise StoreMisconfigured("the database URL cannot be read; write postgresql+psycopg://role@host/database") from error
    if parsed.drivername not in ("postgresql", "postgresql+psycopg"):
        raise StoreMisconfigured(f"the database URL begins with {parsed.drivername}://; only postgresql+psycopg:// is taken")
    options = {"connect_timeout": _CONNECT_S, "application_name": "headrace"}
    engine = create_engine(
        parsed.set(drivername="postgresql+psycopg"), hide_parameters=True, pool_pre_ping=True, pool_size=10, connect_args=options
    )
    event.listen(engine, "connect", _prepare)
    return engine


def _prepare(connection: psycopg.Connection, _: object) -> None:
    write_any_text(connection)


def _bind(connection: Connection, scope: Scope) -> None:
    """From here to the end of the transaction the rows of ``scope`` are all there are."""
    if scope.everybody:
        connection.execute(text("SELECT set_config('headrace.operator', 'on', true)"))
    elif scope.tenant is not None:
        connection.execute(text("SELECT set_config('headrace.tenant', :tenant, true)"), {"tenant": scope.tenant})


def _check_version(connection: Connection) -> None:
    version = int(connection.execute(text("SHOW server_version_num")).scalar_one())
    if version < MIN_VERSION * 10_000:
        raise StoreMisconfigured(f"the server is PostgreSQL {version // 10_000}; Headrace needs {MIN_VERSION} or newer")


def _check_role(connection: Connection, role: str) -> None:
    """A superuser, one that bypasses row-level security, or the owner of the tables would be held back by nothing."""
    powers = connection.execute(text("SELECT rolsuper OR rolbypassrls FROM pg_roles WHERE rolname = current_user")).scalar_one()
    owned = text("SELECT count(*) FROM pg_class WHERE relkind IN ('r', 'p') AND pg_get_userbyid(relowner) = current_user")
    if powers or connection.execute(owned).scalar_one():
        raise StoreMisconfigured(
            f"role {role} is a superuser, bypasses row-level security or owns tables: nothing would hold it back. "
            f"Give the data proxy a role of its own; {_HOW}"
        )


def _first_line(error: OperationalError | ProgrammingError) -> str:
    return str(error.orig).strip().splitlines()[0] if error.orig else "unknown"

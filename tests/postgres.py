"""A PostgreSQL of one's own for tests and benchmarks: a new cluster on a Unix socket in a temporary directory, durable as usual.

PostgreSQL refuses to run as root; then it runs as the user ``postgres``, else ``nobody``. It ends by its process id.
"""

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
from psycopg import sql
from pydantic import SecretStr

from dataproxy.store.postgres import PostgresUrls

APP, OWNER = "headrace", "headrace_owner"
HOW_TO_GET_IT = "no PostgreSQL server on this machine; on Debian: apt-get install -y postgresql"
_STARTS_WITHIN_S = 60.0


def find_binaries() -> Path | None:
    """The directory of ``initdb`` and ``postgres``, newest version first; None where there is none."""
    debian = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: int(path.parent.name.split(".")[0]), reverse=True)
    on_path = [Path(found).parent for found in (shutil.which("postgres"),) if found]
    return next((path for path in (*debian, *on_path) if (path / "initdb").exists() and (path / "postgres").exists()), None)


@dataclass(slots=True)
class PostgresServer:
    """A server that runs from ``start`` to ``stop``, as ``user`` (None: as we are); ``socket_dir`` is its host."""

    socket_dir: Path
    command: list[str]
    user: pwd.struct_passwd | None = None
    num_databases: int = 0
    _process: "subprocess.Popen[bytes] | None" = None

    def start(self) -> None:
        """Run it; returns once it takes connections."""
        log = self.socket_dir / "log"
        with log.open("ab") as out:
            where = {"stdout": out, "stderr": out, "cwd": self.socket_dir, **_as(self.user)}
            self._process = subprocess.Popen(self.command, **where)  # type: ignore[call-overload]
        _await_connection(self.socket_dir, self._process, log)

    def stop(self, by: signal.Signals = signal.SIGQUIT) -> None:
        """At once, as a crash would: connections break, the next start recovers. By SIGINT in good order. Twice is nothing."""
        if self._process is not None:
            self._process.send_signal(by)
            self._process.wait()
            self._process = None

    def new_database(self) -> "PostgresDatabase":
        """An empty database, owned by the owner role."""
        self.num_databases += 1
        name = f"headrace_{self.num_databases}"
        with self.superuser("postgres") as connection:
            connection.execute(sql.SQL("CREATE DATABASE {} OWNER {}").format(sql.Identifier(name), sql.Identifier(OWNER)))
        return PostgresDatabase(self, name)

    def superuser(self, database: str) -> psycopg.Connection:
        """A connection that may do anything, each statement a transaction."""
        return psycopg.connect(host=str(self.socket_dir), user="postgres", dbname=database, autocommit=True)

    def url(self, role: str, database: str) -> str:
        """As ``HEADRACE_DATAPROXY_DATABASE_URL`` takes it."""
        return f"postgresql+psycopg://{role}@/{database}?host={self.socket_dir}"


@dataclass(slots=True, frozen=True)
class PostgresDatabase:
    """One database of ``server``."""

    server: PostgresServer
    name: str

    @property
    def urls(self) -> PostgresUrls:
        """Those of the data proxy's role and of the owner."""
        return PostgresUrls(SecretStr(self.server.url(APP, self.name)), SecretStr(self.server.url(OWNER, self.name)))

    def empty(self, tables: Iterable[str]) -> None:
        """Delete every row of ``tables``, as only a superuser can: guards and references are off meanwhile."""
        with self.server.superuser(self.name) as connection, connection.transaction():
            connection.execute("SET LOCAL session_replication_role = replica")
            for table in tables:
                connection.execute(sql.SQL("DELETE FROM {}").format(sql.Identifier(table)))

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        """What ``query`` gives, past row-level security."""
        with self.server.superuser(self.name) as connection:
            return connection.execute(query.encode()).fetchall()

    @property
    def environment(self) -> dict[str, str]:
        """What makes ``python -m dataproxy`` use it."""
        urls = self.urls
        owner = urls.owner.get_secret_value() if urls.owner else ""
        return {"HEADRACE_DATAPROXY_DATABASE_URL": urls.app.get_secret_value(), "HEADRACE_DATAPROXY_DATABASE_OWNER_URL": owner}


@contextmanager
def temporary_postgres() -> Iterator[PostgresServer]:
    """A server with the two roles, until the block ends.

    Raises:
        FileNotFoundError: there is no PostgreSQL; the message says how to get it.
    """
    binaries = find_binaries()
    if binaries is None:
        raise FileNotFoundError(HOW_TO_GET_IT)
    directory = Path(tempfile.mkdtemp(prefix="headrace-pg-"))
    try:
        with _serving(binaries, directory) as server:
            yield server
    finally:
        shutil.rmtree(directory)


@contextmanager
def kept_postgres(directory: Path) -> Iterator[PostgresServer]:
    """The same in ``directory``, which stays: a later call finds what an earlier one stored, under the names that it had.

    Raises:
        FileNotFoundError: as above.
    """
    binaries = find_binaries()
    if binaries is None:
        raise FileNotFoundError(HOW_TO_GET_IT)
    directory.mkdir(parents=True, exist_ok=True)
    with _serving(binaries, directory, end_by=signal.SIGINT) as server:
        yield server


@contextmanager
def _serving(binaries: Path, directory: Path, end_by: signal.Signals = signal.SIGQUIT) -> Iterator[PostgresServer]:
    user, is_new = _user(), not (directory / "data").exists()
    if user is not None:
        os.chown(directory, user.pw_uid, user.pw_gid)
    with _running(binaries, directory, user, is_new, end_by) as server:
        if is_new:
            with server.superuser("postgres") as connection:
                for role in (OWNER, APP):
                    connection.execute(sql.SQL("CREATE ROLE {} LOGIN").format(sql.Identifier(role)))
        yield server


@contextmanager
def _running(
    binaries: Path, directory: Path, user: pwd.struct_passwd | None, is_new: bool, end_by: signal.Signals
) -> Iterator[PostgresServer]:
    data = directory / "data"
    if is_new:
        initdb = [str(binaries / "initdb"), "--pgdata", str(data), "-Upostgres", "-Atrust", "--locale=C", "-EUTF8"]
        where = {"check": True, "capture_output": True, "cwd": directory, **_as(user)}
        subprocess.run([*initdb, "--no-sync"], **where)  # type: ignore[call-overload]
    command = [str(binaries / "postgres"), "-D", str(data), "-k", str(directory), "-c", "listen_addresses="]
    server = PostgresServer(directory, command, user)
    try:
        server.start()
        yield server
    finally:
        server.stop(end_by)


def _as(user: pwd.struct_passwd | None) -> dict[str, object]:
    return {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []} if user is not None else {}


def _await_connection(directory: Path, process: "subprocess.Popen[bytes]", log: Path) -> None:
    deadline = time.monotonic() + _STARTS_WITHIN_S
    while True:
        try:
            psycopg.connect(host=str(directory), user="postgres", dbname="postgres").close()
            return
        except psycopg.OperationalError:
            if process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"PostgreSQL did not start:\n{log.read_text()}") from None
            time.sleep(0.02)


def _user() -> pwd.struct_passwd | None:
    """Whom the server runs as; None: as whoever asks."""
    if os.geteuid() != 0:
        return None
    names = {entry.pw_name: entry for entry in pwd.getpwall()}
    return names.get("postgres") or names["nobody"]

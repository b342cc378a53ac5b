"""PostgreSQL as a user meets it: what is wrong is said, one data proxy at a time, its role held back, months apart."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import psycopg
import pytest
from pydantic import SecretStr
from sqlalchemy import func, select, text
from sqlalchemy.exc import DBAPIError

from atdp.ids import new_event_id
from dataproxy.capture import Journal
from dataproxy.errors import SchemaMismatch, StoreLocked, StoreMisconfigured, StoreUnreachable
from dataproxy.store import postgres as postgres_module
from dataproxy.store.database import Database
from dataproxy.store.postgres import PostgresUrls
from dataproxy.store.schema import APPEND_ONLY, BLANKED, event, metadata, tenant
from dataproxy.store.scope import EVERYBODY, NOBODY, Scope
from tests.dataproxy.exchanges import exchange, user, write
from tests.dataproxy.proxy import Clock, Proxy
from tests.dataproxy.test_process import ask, prepared, process
from tests.postgres import OWNER, PostgresDatabase, PostgresServer

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[3]


def app(database: PostgresDatabase) -> PostgresUrls:
    return PostgresUrls(database.urls.app)


def test_a_server_that_does_not_answer_is_named(tmp_path: Path) -> None:
    with pytest.raises(StoreUnreachable, match="no connection to PostgreSQL"):
        Database(PostgresUrls(SecretStr(f"postgresql+psycopg://headrace@/x?host={tmp_path}")))


@pytest.mark.parametrize("url", ["mysql://a@b/c", "nonsense", "postgresql+asyncpg://a@b/c"])
def test_another_databases_url_is_refused(url: str) -> None:
    with pytest.raises(StoreMisconfigured, match=r"postgresql\+psycopg://"):
        Database(PostgresUrls(SecretStr(url)))


def test_an_old_server_is_refused(postgres_database: PostgresDatabase, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postgres_module, "MIN_VERSION", 99)
    with pytest.raises(StoreMisconfigured, match="needs 99 or newer"):
        Database(app(postgres_database))


@pytest.mark.parametrize("role", [OWNER, "postgres"])
def test_a_role_that_nothing_holds_back_is_refused(postgres: PostgresServer, migrated: PostgresDatabase, role: str) -> None:
    with pytest.raises(StoreMisconfigured, match="a role of its own"):
        Database(PostgresUrls(SecretStr(postgres.url(role, migrated.name))))


def test_tables_that_are_missing_need_the_owner(postgres: PostgresServer) -> None:
    database = postgres.new_database()
    with pytest.raises(SchemaMismatch, match="HEADRACE_DATAPROXY_DATABASE_OWNER_URL"):
        Database(app(database))
    Database(database.urls).close()
    Database(app(database)).close()


def test_a_second_data_proxy_is_refused_and_the_first_one_leaves_room(postgres_database: PostgresDatabase) -> None:
    first = Database(app(postgres_database))
    with pytest.raises(StoreLocked, match="stop it first"):
        Database(app(postgres_database))
    first.close()
    Database(app(postgres_database)).close()


def test_who_lost_the_lock_with_its_connection_takes_it_again_or_stops(postgres_database: PostgresDatabase) -> None:
    end_all = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'headrace' AND datname = %s"

    def cut_off() -> None:
        with postgres_database.server.superuser("postgres") as connection:
            connection.execute(end_all, [postgres_database.name])

    first = Database(app(postgres_database))
    cut_off()
    with first.write() as connection:
        connection.execute(tenant.insert().values(tenant="a", created_us=1))
    cut_off()
    second = Database(app(postgres_database))
    with pytest.raises(StoreLocked), first.write():
        pass
    second.close()
    first.close()


def test_the_data_proxys_role_can_change_nothing_append_only_and_truncate_nothing(postgres_database: PostgresDatabase) -> None:
    with psycopg.connect(_dsn(postgres_database, "headrace"), autocommit=True) as raw:
        raw.execute("SET headrace.operator = 'on'")
        for table in metadata.tables:
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                raw.execute(f"TRUNCATE {table} CASCADE")
        for table in APPEND_ONLY:
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                raw.execute(f"DELETE FROM {table}")
            for column in metadata.tables[table].c:
                if column.name in BLANKED.get(table, ("", {}))[1]:
                    continue
                with pytest.raises(psycopg.errors.InsufficientPrivilege):
                    raw.execute(f'UPDATE {table} SET "{column.name}" = "{column.name}"')
        for statement in ("DROP TABLE event", "ALTER TABLE event DISABLE ROW LEVEL SECURITY", "CREATE TABLE mine (a int)"):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                raw.execute(statement)


async def test_the_owner_too_is_stopped_by_triggers(proxy_on_postgres: Proxy, postgres_database: PostgresDatabase) -> None:
    with psycopg.connect(_dsn(postgres_database, OWNER), autocommit=True) as raw:
        raw.execute("SET headrace.operator = 'on'")
        for table in ("event", "consent", "eligibility"):
            assert raw.execute(f"SELECT count(*) FROM {table}").fetchone() != (0,)
            for change in (f"UPDATE {table} SET tenant = 'x'", f"DELETE FROM {table}", f"TRUNCATE {table} CASCADE"):
                with pytest.raises(psycopg.errors.RestrictViolation, match="is append-only"):
                    raw.execute(change)


@pytest.fixture
async def proxy_on_postgres(tmp_path: Path, postgres_database: PostgresDatabase):
    proxy = Proxy(tmp_path, Clock(), app(postgres_database))
    for owner in ("acme", "other"):
        proxy.consent(owner)
    journal = proxy.journal()
    await write(journal, *(exchange([user(f"q{i}")], prompt=[1, i], tenant=owner) for owner in ("acme", "other") for i in range(3)))
    journal.close()
    proxy.drain()
    yield proxy
    proxy.services.database.close()


async def test_a_transaction_sees_and_touches_the_rows_of_its_scope_and_no_others(proxy_on_postgres: Proxy) -> None:
    database = proxy_on_postgres.services.database

    def counts(scope: Scope) -> dict[str, int]:
        with database.read(scope) as connection:
            query = select(event.c.tenant, func.count()).group_by(event.c.tenant)
            return {str(owner): int(num) for owner, num in connection.execute(query)}

    everybody = counts(EVERYBODY)
    assert everybody["acme"] >= 3 and everybody["other"] >= 3
    assert counts(Scope("acme")) == {"acme": everybody["acme"]}
    assert counts(NOBODY) == {} and counts(Scope("nobody")) == {}
    with database.write(Scope("acme")) as connection:
        for statement in ("UPDATE trajectory SET closed = true WHERE tenant = 'other'", "DELETE FROM agent WHERE tenant = 'other'"):
            assert connection.execute(text(statement)).rowcount == 0
    for statement in (
        "INSERT INTO tenant (tenant, created_us) VALUES ('new', 1)",
        "UPDATE trajectory SET tenant = 'other'",
    ):
        with pytest.raises(DBAPIError, match="row-level security"), database.write(Scope("acme")) as connection:
            connection.execute(text(statement))


async def test_every_table_with_a_tenant_is_forced_and_partitions_are_out_of_reach(proxy_on_postgres: Proxy) -> None:
    with proxy_on_postgres.services.database.read() as connection:
        query = text("SELECT relname, relrowsecurity AND relforcerowsecurity FROM pg_class WHERE relkind IN ('r', 'p')")
        forced = {name for name, is_forced in connection.execute(query) if is_forced}
        partitions = list(connection.execute(text("SELECT inhrelid::regclass::text FROM pg_inherits JOIN pg_class c "
                                                  "ON c.oid = inhrelid WHERE c.relkind = 'r'")).scalars())  # fmt: skip
    assert forced >= set(metadata.tables) and any(name.startswith("event_y") for name in partitions)
    for name in partitions:
        with pytest.raises(DBAPIError, match="permission denied"), proxy_on_postgres.services.database.read() as connection:
            connection.execute(text(f"SELECT 1 FROM {name}"))


def _copy_of_an_event(event_id: str, position: int) -> str:
    columns = [column.name for column in event.c if column.name not in ("event_id", "position")]
    named = ", ".join(f'"{name}"' for name in columns)
    return f"INSERT INTO event (event_id, position, {named}) SELECT '{event_id}', {position}, {named} FROM event LIMIT 1"


async def test_events_lie_in_the_partition_of_their_month_and_an_id_is_taken_once(
    proxy_on_postgres: Proxy, postgres_database: PostgresDatabase
) -> None:
    where = "SELECT tableoid::regclass::text FROM event WHERE event_id = %s"
    with postgres_database.server.superuser(postgres_database.name) as raw:
        (month,) = raw.execute("SELECT 'event_' || to_char(now() AT TIME ZONE 'UTC', '\"y\"YYYY\"m\"MM')").fetchone() or ("",)
        for event_id, place in ((new_event_id(), month), ("0" * 32, "event_default")):
            raw.execute(_copy_of_an_event(event_id, 10**9))
            assert raw.execute(where, [event_id]).fetchone() == (place,)
            with pytest.raises(psycopg.errors.UniqueViolation):
                raw.execute(_copy_of_an_event(event_id, 10**9 + 1))


async def test_the_servers_statistics_hold_nothing_of_texts_bodies_and_tokens(
    proxy_on_postgres: Proxy, postgres_database: PostgresDatabase
) -> None:
    with postgres_database.server.superuser(postgres_database.name) as raw:
        raw.execute("ANALYZE")
        found = raw.execute("SELECT tablename, attname FROM pg_stats WHERE schemaname = 'public'").fetchall()
    names = {name for table, name in found if table in ("content", "event", "event_default", "token_segment_default", "reward")}
    assert {"tenant", "session_id", "digest"} <= names
    assert names.isdisjoint(("data", "body", "prompt_ids", "output_ids", "logprobs", "label", "correction", "explanation"))


async def test_words_without_end_and_nul_do_not_stop_the_drain(proxy_on_postgres: Proxy) -> None:
    journal = proxy_on_postgres.journal()
    await write(journal, exchange([user("nul \0 here")], model="m" * 4000), exchange([user("q")], model="a\0b", user="u\0"))
    journal.close()
    assert proxy_on_postgres.drain() == 2
    assert proxy_on_postgres.rows(select(func.count()).select_from(event).where(event.c.kind == "model_call")) == [(8,)]


async def test_killed_at_its_fault_points_it_loses_nothing_and_repeats_nothing(
    tmp_path: Path, postgres_database: PostgresDatabase
) -> None:
    files, faults = prepared(tmp_path), tmp_path / "faults"
    faults.mkdir()
    environment = {"HEADRACE_DATAPROXY_DATABASE_URL": postgres_database.urls.app.get_secret_value()}
    journal = Journal.open(tmp_path / "data" / "journal", files.journal_public(), max_segment_bytes=4000)
    for point in ("dataproxy.mid_drain", "dataproxy.after_commit"):
        await write(journal, *(exchange([user(f"{point} call {i}")]) for i in range(10)))
        (faults / f"{point}.kill").touch()
        with process(tmp_path, HEADRACE_FAULTS=str(faults), **environment) as running:
            assert running.wait(60) == -signal.SIGKILL
    journal.close()
    with process(tmp_path, **environment) as running, ask(tmp_path, files, running) as client:
        while client.status().journal_backlog or client.status().events < 20:
            assert running.poll() is None
        assert client.status().events == 20 and client.status().quarantine == {}


def test_what_is_wrong_at_the_start_is_said_in_a_sentence(tmp_path: Path) -> None:
    prepared(tmp_path)
    own = {"HEADRACE_DATAPROXY_DATA_DIR": str(tmp_path / "data"), "HEADRACE_DATAPROXY_CONFIG_DIR": str(tmp_path / "config")}
    wrong = {"HEADRACE_DATAPROXY_DATABASE_URL": f"postgresql+psycopg://headrace:s3cret@/x?host={tmp_path}"}
    command = [sys.executable, "-m", "dataproxy"]
    ended = subprocess.run(command, cwd=ROOT, env=os.environ | own | wrong, capture_output=True, timeout=60)
    assert ended.returncode == 1 and b"no connection to PostgreSQL" in ended.stderr
    assert b"Traceback" not in ended.stderr and b"s3cret" not in ended.stderr


def _dsn(database: PostgresDatabase, role: str) -> str:
    return f"host={database.server.socket_dir} user={role} dbname={database.name}"

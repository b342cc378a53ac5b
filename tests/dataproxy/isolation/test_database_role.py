"""Raw SQL as the data proxy's own role on PostgreSQL, bound to one tenant: 200 statements, none of which reaches the other."""

import random
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest
from sqlalchemy import Table

from dataproxy.store.postgres import PostgresUrls
from dataproxy.store.schema import SHARED, metadata
from tests.dataproxy.isolation.tenants import CANARY, OURS, THEIRS, everything_of, ghost, settle
from tests.dataproxy.proxy import Clock, Proxy
from tests.postgres import APP, PostgresDatabase

pytestmark = pytest.mark.slow
NUM_STATEMENTS = 200
SEED = 4
TABLES = [table for table in metadata.sorted_tables if "tenant" in table.c]
Statement = Callable[[Table, str, str], str]


@pytest.fixture
def proxy(tmp_path: Path, postgres_database: PostgresDatabase) -> Iterator[Proxy]:
    made = Proxy(tmp_path, Clock(), PostgresUrls(postgres_database.urls.app))
    yield made
    made.services.database.close()


def _key(table: Table) -> str:
    """The first column of the primary key behind the tenant that is text."""
    named = (column.name for column in table.primary_key if column.name != "tenant" and column.type.python_type is str)
    return next(named, "tenant")


def _only_theirs(all_seeing: psycopg.Connection, table: Table) -> list[str]:
    query = f'SELECT "{_key(table)}"::text FROM {table.name} WHERE tenant = %s'
    theirs, ours = ({row[0] for row in all_seeing.execute(query, [owner])} for owner in (THEIRS, OURS))  # type: ignore[call-overload]
    return sorted(theirs - ours)


READS: tuple[Statement, ...] = (
    lambda table, column, name: f"SELECT * FROM {table} WHERE \"{column}\" = '{name}'",
    lambda table, column, name: f"SELECT count(*) FROM {table} WHERE tenant = '{THEIRS}' AND \"{column}\" <= '{name}'",
    lambda table, column, name: f"SELECT EXISTS (SELECT 1 FROM {table} WHERE \"{column}\" LIKE '{name}%')",
    lambda table, column, name: f"SELECT t.* FROM {table} t JOIN event e ON e.tenant = t.tenant WHERE t.\"{column}\" = '{name}'",
    lambda table, column, name: f"SELECT max(\"{column}\") FROM {table} WHERE tenant <> '{OURS}' AND tenant <> ''",
    lambda table, column, name: f"TABLE {table} EXCEPT SELECT * FROM {table} WHERE tenant = '{OURS}'",
)
WRITES: tuple[Statement, ...] = (
    lambda table, column, name: f"UPDATE {table} SET tenant = tenant WHERE \"{column}\" = '{name}'",
    lambda table, column, name: f"UPDATE {table} SET tenant = '{THEIRS}' WHERE \"{column}\" = '{name}'",
    lambda table, column, name: f"DELETE FROM {table} WHERE tenant = '{THEIRS}' AND \"{column}\" = '{name}'",
    lambda table, column, name: f"INSERT INTO {table} SELECT * FROM {table} WHERE \"{column}\" = '{name}' ON CONFLICT DO NOTHING",
    lambda table, column, name: f"SELECT * FROM {table} WHERE \"{column}\" = '{name}' FOR UPDATE",
)


def outcome(raw: psycopg.Connection, statement: str, name: str) -> tuple[object, ...]:
    """What whoever sends ``statement`` gets to see: rows, their number, or the error."""
    try:
        with raw.transaction():
            raw.execute("SELECT set_config('headrace.tenant', %s, true)", [OURS])
            cursor = raw.execute(statement)  # type: ignore[call-overload]
            rows = cursor.fetchall() if cursor.description else []
            assert CANARY not in repr(rows) and THEIRS not in repr(rows), statement
            return ("ok", cursor.rowcount, rows)
    except psycopg.Error as error:
        diagnosis = error.diag.message_primary or ""
        return (type(error).__name__, diagnosis.replace(name, "NAME"), error.diag.message_detail and "detail")


async def test_bound_to_one_tenant_the_role_cannot_tell_a_foreign_row_from_none(
    proxy: Proxy, postgres_database: PostgresDatabase
) -> None:
    await settle(proxy)
    before = everything_of(proxy, THEIRS)
    with postgres_database.server.superuser(postgres_database.name) as all_seeing:
        keys = {table.name: _only_theirs(all_seeing, table) for table in TABLES}
    filled = [table for table in TABLES if keys[table.name]]
    assert len(filled) > 15
    draw = random.Random(SEED)
    with psycopg.connect(f"host={postgres_database.server.socket_dir} user={APP} dbname={postgres_database.name}") as raw:
        for number in range(NUM_STATEMENTS):
            table = filled[number % len(filled)]
            make, column = draw.choice(READS + WRITES), _key(table)
            name = draw.choice(keys[table.name])
            nobody = ghost(name)
            answers = [outcome(raw, make(table, column, each), each) for each in (name, nobody)]
            assert answers[0] == answers[1], make(table, column, name)
    after = everything_of(proxy, THEIRS)
    assert {name for name in before if before[name] != after[name]} == set()


def _other(value: object) -> object:
    return ghost(value) if isinstance(value, str) and value != THEIRS else value


async def test_a_row_in_anothers_name_is_refused_alike_whether_the_other_has_it_or_not(
    proxy: Proxy, postgres_database: PostgresDatabase
) -> None:
    await settle(proxy)
    with psycopg.connect(f"host={postgres_database.server.socket_dir} user={APP} dbname={postgres_database.name}") as raw:
        for table in TABLES:
            if table.name in SHARED:
                continue
            columns = ", ".join(f'"{column.name}"' for column in table.c)
            with postgres_database.server.superuser(postgres_database.name) as all_seeing:
                where = f"SELECT {columns} FROM {table.name} WHERE tenant = %s LIMIT 1"
                row = all_seeing.execute(where, [THEIRS]).fetchone()  # type: ignore[call-overload]
            if row is None:
                continue
            marks = ", ".join("%s" for _ in table.c)
            seen = []
            for changed in (row, [_other(value) for value in row]):
                with pytest.raises(psycopg.Error) as refused, raw.transaction():
                    raw.execute("SELECT set_config('headrace.tenant', %s, true)", [OURS])
                    raw.execute(f"INSERT INTO {table.name} ({columns}) VALUES ({marks})", changed)  # type: ignore[call-overload]
                seen.append((type(refused.value), refused.value.diag.message_primary))
            assert seen[0] == seen[1] and "row-level security" in str(seen[0][1]), table.name

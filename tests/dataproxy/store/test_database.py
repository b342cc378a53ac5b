"""The database: migrations make what the schema says, one process at a time, nothing of a row in an error."""

from pathlib import Path

import pytest
from sqlalchemy import text
from sqlalchemy.exc import IntegrityError

from dataproxy.errors import SchemaMismatch, StoreLocked
from dataproxy.store.database import Database
from dataproxy.store.schema import APPEND_ONLY, metadata, tenant
from tests.dataproxy.store.differences import differences


def test_the_migrations_make_exactly_the_tables_of_the_schema(tmp_path: Path) -> None:
    database = Database(tmp_path / "h.db")
    with database.read() as connection:
        assert differences(connection) == []
        triggers = set(connection.execute(text("SELECT name FROM sqlite_master WHERE type = 'trigger'")).scalars())
    assert triggers == {f"{table}_no_{action}" for table in APPEND_ONLY for action in ("update", "delete")}
    database.close()


def test_every_key_of_a_tenants_data_leads_with_the_tenant() -> None:
    leading = {table.name: next(iter(table.primary_key)).name for table in metadata.sorted_tables}
    assert {name for name, column in leading.items() if column != "tenant"} == {"journal_offset"}


def test_a_second_process_is_refused_and_the_first_one_leaves_room(tmp_path: Path) -> None:
    database = Database(tmp_path / "h.db")
    with pytest.raises(StoreLocked, match="stop it first"):
        Database(tmp_path / "h.db")
    database.close()
    Database(tmp_path / "h.db").close()


def test_a_store_of_a_newer_headrace_is_refused(tmp_path: Path) -> None:
    database = Database(tmp_path / "h.db")
    with database.write() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    database.close()
    with pytest.raises(SchemaMismatch, match="9999"):
        Database(tmp_path / "h.db")


def test_an_error_of_the_database_does_not_quote_the_row(tmp_path: Path) -> None:
    database = Database(tmp_path / "h.db")
    with pytest.raises(IntegrityError) as failed, database.write() as connection:
        for _ in range(2):
            connection.execute(tenant.insert().values(tenant="a-private-name", created_us=1))
    assert "a-private-name" not in str(failed.value)
    with database.read() as connection:
        assert connection.execute(tenant.select()).all() == []
    database.close()


def test_the_connections_are_durable_and_overwrite_what_they_delete(tmp_path: Path) -> None:
    database = Database(tmp_path / "h.db")
    with database.read() as connection:
        pragmas = {
            name: connection.execute(text(f"PRAGMA {name}")).scalar() for name in ("journal_mode", "synchronous", "secure_delete")
        }
    assert pragmas == {"journal_mode": "wal", "synchronous": 2, "secure_delete": 1}
    assert (tmp_path / "h.db").stat().st_mode & 0o077 == 0
    database.close()

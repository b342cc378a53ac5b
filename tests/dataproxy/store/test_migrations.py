"""Every migration goes up, down and up again with data in, on both databases, and loses nothing that both sides can hold."""

from pathlib import Path

import pytest
from alembic.config import Config
from alembic.script import ScriptDirectory
from sqlalchemy import MetaData, select
from sqlalchemy.exc import DBAPIError

from dataproxy.store import database as database_module
from dataproxy.store.database import Database
from dataproxy.store.schema import APPEND_ONLY, metadata
from tests.dataproxy.exchanges import exchange, said, user, write
from tests.dataproxy.proxy import SECRET_WORD, Proxy
from tests.dataproxy.store.differences import differences
from tests.postgres import PostgresServer

FIRST = "0001"


def revisions() -> list[str]:
    """Newest first."""
    config = Config()
    config.set_main_option("script_location", str(Path(database_module.__file__).parent / "migrations"))
    return [script.revision for script in ScriptDirectory.from_config(config).walk_revisions()]


@pytest.fixture
def database(store_kind: str, tmp_path: Path, request: pytest.FixtureRequest):
    if store_kind == "postgres":
        server: PostgresServer = request.getfixturevalue("postgres")
        opened = Database(server.new_database().urls)
    else:
        opened = Database(tmp_path / "m.db")
    yield opened
    opened.close()


def rows(database: Database) -> dict[str, list[str]]:
    """Everything, as the database has it now, whatever its schema."""
    with database.read() as connection:
        found = MetaData()
        found.reflect(connection, only=lambda name, _: name in metadata.tables, resolve_fks=False)
        return {name: sorted(map(repr, connection.execute(select(table)))) for name, table in found.tables.items()}


def test_an_empty_store_goes_down_to_nothing_and_up_again(database: Database) -> None:
    database.migrate("base")
    assert rows(database) == {}
    for revision in reversed(revisions()):
        database.migrate(revision)
    with database.read() as connection:
        assert differences(connection) == []


async def test_a_store_with_data_in_goes_down_step_by_step_and_up_again(database: Database, tmp_path: Path) -> None:
    proxy = Proxy(tmp_path, clock=lambda: 1_700_000_000_000_000, database=database)  # type: ignore[arg-type]
    proxy.consent()
    proxy.key("agent")
    journal = proxy.journal()
    await write(
        journal,
        exchange([user(f"hi {SECRET_WORD}")], "yes", prompt=[1, 2]),
        exchange([user("hi"), said("yes"), user("and?")], prompt=[1, 2]),
    )
    proxy.drain()
    journal.close()
    before = rows(database)
    assert len(before["event"]) == 2 and before["token_segment"] and before["content_span"]
    for revision in revisions()[1:]:
        database.migrate(revision)
    bottom = rows(database)
    kept = [name for name in bottom if bottom[name] == before[name]]
    assert {"event", "event_span", "token_segment", "eligibility", "session"} <= set(kept)
    assert len(bottom["trajectory"]) == len(before["trajectory"])
    for revision in reversed(revisions()):
        database.migrate(revision)
    after = rows(database)
    assert after.keys() == before.keys()
    lossy = ("api_key", "content", "trajectory")  # some of their columns have no place before
    assert {name: after[name] for name in bottom if name not in lossy} == {
        name: before[name] for name in bottom if name not in lossy
    }
    for name in (*lossy, "consent"):
        assert len(after[name]) == len(before[name])
    with database.read() as connection:
        assert differences(connection) == []


async def test_after_any_migration_what_is_append_only_stays_so(database: Database, tmp_path: Path) -> None:
    proxy = Proxy(tmp_path, clock=lambda: 1_700_000_000_000_000, database=database)  # type: ignore[arg-type]
    proxy.consent()
    for revision in (FIRST, *reversed(revisions()[:-1])):
        database.migrate(revision)
        table = metadata.tables["consent"]
        assert table.name in APPEND_ONLY
        for change in (table.update().values(reason="x"), table.delete()):
            with pytest.raises(DBAPIError), database.write() as connection:
                connection.execute(change)

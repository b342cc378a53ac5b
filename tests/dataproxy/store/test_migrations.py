"""Every migration goes up, down and up again with data in, on both databases, and loses nothing that both sides can hold."""

from pathlib import Path

import pytest
from alembic.config import Config
from alembic.script import ScriptDirectory
from sqlalchemy import MetaData, select
from sqlalchemy.exc import DBAPIError

from dataproxy.client.review_types import LegalHold
from dataproxy.retain.holds import add_hold
from dataproxy.store import database as database_module
from dataproxy.store.database import Database
from dataproxy.store.schema import APPEND_ONLY, metadata
from tests.dataproxy.exchanges import exchange, said, user, write
from tests.dataproxy.ledger.lived_in import decide, live, verified
from tests.dataproxy.proxy import SECRET_WORD, Clock, Proxy
from tests.dataproxy.retain.erasing import erased
from tests.dataproxy.store.differences import differences
from tests.postgres import PostgresServer

FIRST = "0001"
LEDGER = "0004"
NEWEST_BUT_ONE = "0014"
DECIDED = {"recording_policy", "redaction_policy", "vault_approval", "review_mark", "version_order"}
"""Tables of what people decide that came after the ledger: going down takes them away."""


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


async def lived_in(database: Database, tmp_path: Path) -> tuple[Proxy, Clock]:
    """Conversations, rewards, training, reads, a quarantine, an erasure and a hold, all in the log."""
    clock = Clock(1_700_000_000_000_000)
    proxy = Proxy(tmp_path, clock, database=database)
    proxy.consent()
    await live(proxy, clock)
    erased(proxy, "session", "named-other", tenant="other")
    with database.write() as connection:
        add_hold(connection, LegalHold("acme", "tenant", "", "case 7"), "key-9", clock())
    return proxy, clock


def down_and_up(database: Database, bottom: str) -> None:
    """To ``bottom`` and back, one revision at a time."""
    path = [revision for revision in revisions() if revision >= bottom]
    for revision in [*path[1:], *reversed(path)]:
        database.migrate(revision)


async def test_a_lived_in_stores_log_verifies_after_it_went_down_to_where_the_log_began_and_up_again(
    database: Database, tmp_path: Path
) -> None:
    proxy, _ = await lived_in(database, tmp_path)
    before, counts = verified(proxy), {name: len(found) for name, found in rows(database).items()}
    assert before.ok and before.erased and before.leaves > 15, before.problems
    assert all(counts[name] for name in ("reward", "training_use", "batch", "access_log", "quarantine", "tombstone", "legal_hold"))
    down_and_up(database, LEDGER)
    assert verified(proxy) == before
    assert {name: len(found) for name, found in rows(database).items()} == counts


async def test_what_people_decided_outlives_a_step_down_and_is_missed_by_the_audit_where_going_further_took_it(
    database: Database, tmp_path: Path
) -> None:
    proxy, clock = await lived_in(database, tmp_path)
    decide(proxy, clock)
    before, everything = verified(proxy), rows(database)
    assert before.ok and all(everything[name] for name in DECIDED), before.problems
    down_and_up(database, NEWEST_BUT_ONE)
    assert (verified(proxy), rows(database)) == (before, everything)
    down_and_up(database, LEDGER)
    after = verified(proxy)
    assert (after.ok, after.leaves) == (False, before.leaves)
    assert {one.table for one in after.problems} == DECIDED and {one.what for one in after.problems} == {"the row is missing"}


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

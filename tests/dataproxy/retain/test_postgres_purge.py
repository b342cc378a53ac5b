"""What is erased on PostgreSQL leaves the tables' files, byte for byte, as soon as nobody can see it any more; the log verifies."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import Table, select, update
from sqlalchemy.exc import DBAPIError

from dataproxy.client.review_types import Retention
from dataproxy.retain.keeper import Keeper
from dataproxy.retain.retention import set_retention
from dataproxy.settings import Settings
from dataproxy.store import rewriting
from dataproxy.store.compression import decompress
from dataproxy.store.postgres import Postgres, PostgresUrls
from dataproxy.store.schema import content, event, reward, tenant, token_segment
from dataproxy.store.schema import session as session_table
from tests.dataproxy.ledger.lived_in import verified
from tests.dataproxy.proxy import Clock, Proxy
from tests.dataproxy.retain.erasing import erased
from tests.dataproxy.retain.test_erase import PLANTED, two_people
from tests.postgres import PostgresDatabase

pytestmark = pytest.mark.slow


@pytest.fixture
def proxy(tmp_path: Path, postgres_database: PostgresDatabase, clock: Clock) -> Iterator[Proxy]:
    """One that knows the owner."""
    made = Proxy(tmp_path, clock, postgres_database.urls)
    made.consent()
    yield made
    made.services.database.close()


def traces(proxy: Proxy, event_id: str) -> list[bytes]:
    """As the tables hold them: the texts, body and tokens that belong to the event's session alone, and a reward's words."""
    mine = select(event.c.event_id).where(event.c.session_id.in_(select(event.c.session_id).where(event.c.event_id == event_id)))
    found = [row[0] for row in proxy.rows(select(event.c.body).where(event.c.event_id.in_(mine)))]
    found += [row[0] for row in proxy.rows(select(token_segment.c.prompt_ids).where(token_segment.c.event_id.in_(mine)))]
    said = [row[0] for row in proxy.rows(select(content.c.data).where(content.c.owner.in_(mine)))]
    found += [data for data in said if PLANTED.encode() in decompress(data)]
    found += [row[0].encode() for row in proxy.rows(select(reward.c.explanation)) if row[0]]
    return [one for one in found if len(one) > 20]


def in_files(database: PostgresDatabase, sought: list[bytes]) -> set[bytes]:
    """Those of ``sought`` that a file of this database's tables holds, once the server has written all of them."""
    with database.server.superuser(database.name) as superuser:
        superuser.execute("CHECKPOINT")
        (number,) = superuser.execute("SELECT oid FROM pg_database WHERE datname = current_database()").fetchone() or (0,)
    files = [path.read_bytes() for path in (database.server.socket_dir / "data" / "base" / str(number)).iterdir()]
    return {one for one in sought if any(one in data for data in files)}


async def test_no_tables_file_holds_what_was_erased(proxy: Proxy, postgres_database: PostgresDatabase) -> None:
    event_id = await two_people(proxy)
    sought = traces(proxy, event_id)
    assert len(sought) >= 5 and in_files(postgres_database, sought) == set(sought)
    erased(proxy, "subject", "ann@example.org")
    assert in_files(postgres_database, sought) == set()
    again = await two_people(proxy)
    more = traces(proxy, again)
    assert in_files(postgres_database, more) == set(more)
    erased(proxy, "session", "ann-1")
    assert in_files(postgres_database, more) == set()
    report = verified(proxy)
    assert report.ok and report.erased == 6, report.problems


@pytest.mark.parametrize("table", [event, tenant], ids=["of its tables", "of another table, before"])
async def test_while_a_reader_may_still_see_it_nothing_is_promised(
    proxy: Proxy, postgres_database: PostgresDatabase, table: Table
) -> None:
    event_id = await two_people(proxy)
    sought, database = traces(proxy, event_id), proxy.services.database
    with database.read() as reader:
        reader.execute(select(table)).all()
        with pytest.raises(AssertionError):
            erased(proxy, "session", "ann-1")
        assert not database.purged and in_files(postgres_database, sought)
    assert database.purge() and in_files(postgres_database, sought) == set()


async def test_what_outlived_its_retention_leaves_the_files_when_the_keeper_finds_nobody_reading(
    proxy: Proxy, postgres_database: PostgresDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    keeper, database = Keeper(proxy.services, Settings(retention_s=3600)), proxy.services.database
    keeper.look()
    sought = traces(proxy, await two_people(proxy))
    with database.write() as connection:
        set_retention(connection, Retention("acme", "none", 0, "a test"), "key-1", proxy.clock())
    proxy.clock.advance(3601)
    with database.read() as reader:
        reader.execute(select(content)).all()
        keeper.look()
        assert not database.purged
    keeper.look()
    assert not database.purged  # a moment after the last try, which is dear
    monkeypatch.setattr(Postgres, "purge_pause_s", 0.0)
    keeper.look()
    assert database.purged and in_files(postgres_database, sought) == set()
    assert verified(proxy).ok


async def test_without_the_owner_it_is_left_to_the_server(
    tmp_path: Path, postgres_database: PostgresDatabase, clock: Clock
) -> None:
    made = Proxy(tmp_path, clock, PostgresUrls(postgres_database.urls.app))
    made.consent()
    await two_people(made)
    assert not made.services.database.may_purge
    erased(made, "session", "ann-1")
    assert not made.services.database.purged and verified(made).ok
    made.services.database.close()


async def test_nobody_waits_for_large_tables(proxy: Proxy, monkeypatch: pytest.MonkeyPatch) -> None:
    await two_people(proxy)
    erased(proxy, "session", "ann-1")
    assert proxy.services.database.purge(at_once=True)
    monkeypatch.setattr(rewriting, "MOST_AT_ONCE", 0)
    assert not proxy.services.database.purge(at_once=True) and proxy.services.database.purge()


async def test_rows_that_stay_are_as_they_were_and_guarded_as_before(proxy: Proxy) -> None:
    await two_people(proxy)
    tables = (content, token_segment, reward, session_table)
    erased(proxy, "subject", "ann@example.org")
    before = [proxy.rows(select(table)) for table in tables]
    assert proxy.services.database.purge()
    assert [proxy.rows(select(table)) for table in tables] == before
    blank = update(event).where(event.c.body != b"").values(subject="", request_digest=None, body=b"")
    with pytest.raises(DBAPIError, match="append-only"), proxy.services.database.write() as connection:
        connection.execute(blank)

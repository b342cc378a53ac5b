"""A data proxy and a clock for every test that asks; the tests that hold for any store run on PostgreSQL too."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from dataproxy.store.database import Database
from dataproxy.store.postgres import PostgresUrls
from dataproxy.store.schema import metadata
from tests.dataproxy.proxy import Clock, Proxy
from tests.postgres import PostgresDatabase, PostgresServer, find_binaries, temporary_postgres

_HERE = Path(__file__).parent
_ON_BOTH = (
    "store",
    "drain/test_drain.py",
    "drain/test_external.py",
    "ingest/test_events_route.py",
    "ingest/test_mcp.py",
    "lease",
    "assemble/test_exact_joins.py",
    "api/test_api.py",
    "api/test_review_marks.py",
    "ledger/test_either_database.py",
    "isolation",
    "retain/test_erase.py",
    "retain/test_retention.py",
    "transfer",
    "vault/test_vault.py",
)
_ON_BOTH_PATHS = tuple(_HERE / path for path in _ON_BOTH)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Tests in ``_ON_BOTH`` that ask for ``store_kind``, be it through ``proxy``, run once on each database."""
    if "store_kind" in metafunc.fixturenames:
        kinds = ["sqlite"]
        if any(metafunc.definition.path.is_relative_to(path) for path in _ON_BOTH_PATHS):
            kinds.append(pytest.param("postgres", marks=pytest.mark.slow))
        metafunc.parametrize("store_kind", kinds, indirect=True)


@pytest.fixture
def store_kind(request: pytest.FixtureRequest) -> str:
    """sqlite or postgres."""
    return str(request.param)


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """One server for the whole run."""
    if find_binaries() is None:
        pytest.skip("NOT TESTED: there is no PostgreSQL on this machine; on Debian: apt-get install -y postgresql")
    with temporary_postgres() as server:
        yield server


@pytest.fixture(scope="session")
def migrated(postgres: PostgresServer) -> PostgresDatabase:
    """A migrated database that the tests of the run share."""
    database = postgres.new_database()
    Database(database.urls).close()
    return database


@pytest.fixture
def postgres_database(migrated: PostgresDatabase) -> PostgresDatabase:
    """The shared database, emptied: a new one for each test would wait for the disk ten times as long."""
    migrated.empty(table.name for table in metadata.sorted_tables)
    return migrated


@pytest.fixture
def clock() -> Clock:
    """A clock that stands still."""
    return Clock()


@pytest.fixture
def proxy(tmp_path: Path, clock: Clock, store_kind: str, request: pytest.FixtureRequest) -> Iterator[Proxy]:
    """A data proxy on an empty directory; acme consents to everything."""
    urls = request.getfixturevalue("postgres_database").urls if store_kind == "postgres" else None
    made = Proxy(tmp_path, clock, PostgresUrls(urls.app) if urls else None)
    made.consent()
    yield made
    made.services.database.close()

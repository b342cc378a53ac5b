"""What audits, searches and the drain ask costs what it finds: every question to a table that grows with traffic has its index.

Asked of the database itself: SQLite's EXPLAIN QUERY PLAN names no scan; PostgreSQL, told that scans are dear, finds an index whose
first column the question binds.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, Engine, event, func, select

from bench.console_store import TENANT, IntoPostgres, IntoSqlite, Target, fill
from dataproxy.client.types import KeyInfo
from dataproxy.ledger.erased import tombstones
from dataproxy.ledger.stored import stored_contents
from dataproxy.store.access import record_access
from dataproxy.store.access_pages import ReadQuery, lendings, named, page_of_reads, read_log
from dataproxy.store.postgres import PostgresUrls
from dataproxy.store.reading import find_event
from dataproxy.store.schema import log_leaf, quarantine
from dataproxy.store.search import SearchQuery, search_events
from tests.dataproxy import exchanges
from tests.dataproxy.exchanges import exchange, said, user, write
from tests.dataproxy.lease.test_leases import ack, call, lease, reward, stored
from tests.dataproxy.proxy import BROKEN_WORD, Clock, Proxy
from tests.dataproxy.retain.erasing import erased
from tests.postgres import PostgresDatabase

Statements = list[tuple[str, Any]]
GROWING = frozenset(
    ("access_log", "content", "content_span", "conversation_end", "eligibility", "event", "event_span", "log_leaf", "log_salt")
) | {"quarantine", "reward", "token_segment", "tombstone", "trajectory"}
_READS = re.compile(r"\s*(SELECT|UPDATE|DELETE|WITH)\b")
_INDEXED = (
    "SELECT t.relname, a.attname FROM pg_index i JOIN pg_class t ON t.oid = i.indrelid "
    "JOIN pg_attribute a ON a.attrelid = i.indexrelid AND a.attnum = 1 WHERE i.indexrelid = %s::regclass"
)
"""The table of an index, and its first column."""
_A_PAGE_OF = "ix_trajectory_lendable"
"""Looked at from its end, a bounded number of entries."""
_START_US = 1_700_000_000_000_000
READER = KeyInfo("key-7", TENANT, "triage", "reviewer", [], 0, None, None)
_NARROWED: tuple[dict[str, Any], ...] = (
    {},
    {"purpose": "a case that nobody looked at"},
    {"since_us": _START_US, "until_us": _START_US + 1_000_000, "what": "event"},
    {"not_by": "key-7"},
)


@pytest.fixture
def filled(tmp_path: Path, store_kind: str, clock: Clock, request: pytest.FixtureRequest) -> Iterator[Proxy]:
    """A data proxy whose store holds 4,000 events, and some reads."""
    database: PostgresDatabase | None = request.getfixturevalue("postgres_database") if store_kind == "postgres" else None
    made = Proxy(tmp_path, clock, PostgresUrls(database.urls.app) if database else None)
    if database is None:
        _fill(IntoSqlite(made.services.database))
    else:
        with database.server.superuser(database.name) as superuser:
            _fill(IntoPostgres(superuser))
            superuser.execute("ANALYZE")
    made.consent()
    with made.services.database.write() as connection:
        for number in range(20):
            record_access(connection, READER, TENANT, "event", f"e{number}", clock())
    yield made
    made.services.database.close()


def _fill(target: Target) -> None:
    fill([target], 4000)
    row = {"tenant": TENANT, "reason": "id_taken", "sealed": b"sealed", "created_us": 1}
    target.take(quarantine, [row | {"event_id": f"q{number:031x}"} for number in range(1000)])


@contextmanager
def asked() -> Iterator[Statements]:
    """Every statement that looks for rows, with what was bound to it, until the block ends."""
    found: Statements = []

    def note(_: object, __: object, statement: str, parameters: Any, ___: object, many: bool) -> None:
        if not many and _READS.match(statement):
            found.append((statement, parameters))

    event.listen(Engine, "before_cursor_execute", note)
    try:
        yield found
    finally:
        event.remove(Engine, "before_cursor_execute", note)


def scans(proxy: Proxy, statements: Statements) -> list[str]:
    """What the database would look for without an index."""
    found = []
    with proxy.services.database.write() as connection:
        on_postgres = connection.dialect.name == "postgresql"
        if on_postgres:
            connection.exec_driver_sql("SET LOCAL enable_seqscan = off")
        for statement, bound in statements:
            plan = _postgres_scans if on_postgres else _sqlite_scans
            found += [f"{fault}: {statement}" for fault in plan(connection, statement, bound)]
    return found


def without(index: str, proxy: Proxy, statements: Statements) -> list[str]:
    """What SQLite, which plans without statistics, would answer without ``index``."""
    with proxy.services.database.read() as connection:
        if connection.dialect.name != "sqlite":
            return []
        plans = [str(connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", bound).all()) for statement, bound in statements]
        return [plan for plan in plans if index not in plan]


def by_tenant_alone(proxy: Proxy, statements: Statements) -> list[str]:
    """What SQLite would look for among all rows of a tenant: an index for the order, not for the question."""
    with proxy.services.database.read() as connection:
        if connection.dialect.name != "sqlite":
            return []
        return [
            f"{row.detail}: {statement}"
            for statement, bound in statements
            for row in connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", bound)
            if str(row.detail).endswith("(tenant=?)") and re.sub(r"_\d+$", "", str(row.detail).split()[1]) in GROWING
        ]


def _sqlite_scans(connection: Connection, statement: str, bound: Any) -> Iterator[str]:
    for row in connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", bound):
        words = str(row.detail).split()
        if words[0] == "SCAN" and words[1] in GROWING and words[-1] != _A_PAGE_OF:
            yield str(row.detail)


def _postgres_scans(connection: Connection, statement: str, bound: Any) -> Iterator[str]:
    (whole,) = connection.exec_driver_sql(f"EXPLAIN (FORMAT JSON) {statement}", bound).scalar_one()
    nodes = [whole["Plan"]]
    for node in nodes:
        nodes += node.get("Plans", ())
        kind, table, index = node["Node Type"], node.get("Relation Name", ""), node.get("Index Name")
        if index is not None:
            table, first = connection.exec_driver_sql(_INDEXED, (index,)).one()
        if table.removesuffix("_default") not in GROWING or kind == "ModifyTable":
            continue  # how the few rows of this month are found says nothing: what was filled in lies in the default partition
        if index is None and kind == "Seq Scan":
            yield f"{kind} on {table}"
        elif index is not None and str(first) not in node.get("Index Cond", ""):
            yield f"{kind} over all of {index}"


def test_the_log_of_reads_is_read_by_index(filled: Proxy) -> None:
    with asked() as statements, filled.services.database.read() as connection:
        assert len(read_log(connection, TENANT, None, None, "", 50).rows) == 20
        for tenant in (TENANT, None):
            for reader, target, expected in ((None, None, 20), ("key-7", None, 20), (None, "e3", 1), ("key-7", "e3", 1)):
                what = named(connection, tenant, target, ["session-3"]) if target else None
                names = what.names if what else None
                assert len(read_log(connection, tenant, reader, names, "", 50).rows) == expected
                for narrowed in _NARROWED:
                    wanted = ReadQuery(reader or "", names=names, **narrowed)
                    found = page_of_reads(connection, tenant, wanted, "~", 50)
                    assert len(found.rows) == (0 if narrowed else expected)
                if what:
                    lendings(connection, what, 50)
    assert len(statements) >= 17 + 8 * (len(_NARROWED) - 1)
    assert scans(filled, statements) == []


_QUERIES = (
    SearchQuery(TENANT),
    SearchQuery(TENANT, "number 4711"),
    SearchQuery(TENANT, kind="model_call"),
    SearchQuery(TENANT, agent="agent-07"),
    SearchQuery(TENANT, agent="agent-07", kind="access"),
    SearchQuery(TENANT, sessions=("session-7", "digest-7")),
    SearchQuery(TENANT, since_us=_START_US + 490_000_000),
    SearchQuery(TENANT, until_us=_START_US + 1_000_000),
    SearchQuery(TENANT, agent="agent-07", since_us=_START_US + 100_000_000, until_us=_START_US + 400_000_000),
    SearchQuery(None),
    SearchQuery(None, since_us=_START_US + 490_000_000),
    SearchQuery("nobody"),
)


def test_a_search_is_answered_by_index_and_finds_what_a_look_at_every_event_finds(filled: Proxy) -> None:
    with filled.services.database.read() as connection:
        everything, faults = _every_event(connection), list[str]()
        for query in _QUERIES:
            with asked() as statements:
                found, next_after = search_events(connection, query, 0, 500)
            expected = [item.event_id for item in everything if _fits(item, query)]
            assert [item.event_id for item in found] == expected[:500], query
            assert next_after is None or len(expected) >= 500 or query.text
            faults += scans(filled, statements)
    assert faults == []


def _every_event(connection: Connection) -> list[Any]:
    found, after = [], 0
    while True:
        page, after_next = search_events(connection, SearchQuery(None), after, 500)
        found += page
        if after_next is None:
            return found
        after = after_next


def _fits(item: Any, query: SearchQuery) -> bool:
    return (
        query.tenant in (None, item.tenant)
        and query.kind in (None, item.kind)
        and query.agent in (None, item.agent)
        and (not query.sessions or item.session_id in query.sessions)
        and (query.since_us is None or item.started_at >= query.since_us)
        and (query.until_us is None or item.started_at < query.until_us)
        and (not query.text or query.text in str(item.o))
    )


def test_what_a_leaf_commits_to_is_found_by_more_than_the_tenant(filled: Proxy) -> None:
    events = [f"{number:030x}{1:02x}" for number in range(7)]
    with filled.services.database.read() as connection:
        keys = dict(connection.execute(select(log_leaf.c.kind, func.min(log_leaf.c.row_key)).group_by(log_leaf.c.kind)).all())
    keys.pop("access_log")  # of which there are few
    keys |= {"content": bytes(16).hex()}
    with asked() as statements, filled.services.database.read() as connection:
        assert len(stored_contents(connection, TENANT, "event", events, 0)) == 7
        for kind, key in keys.items():
            stored_contents(connection, TENANT, kind, [key], 0)
        tombstones(connection, TENANT, "er-1")
    asked_of = {table for table in GROWING if any(f"FROM {table}" in statement for statement, _ in statements)}
    assert asked_of >= GROWING - {"access_log", "conversation_end", "log_leaf", "log_salt", "quarantine", "trajectory"}
    assert scans(filled, statements) == []
    assert by_tenant_alone(filled, statements) == []


def test_an_event_is_shown_to_the_operator_by_index(filled: Proxy) -> None:
    with asked() as statements, filled.services.database.read() as connection:
        found = find_event(connection, None, f"{7:030x}{1:02x}")
    assert found is not None and found.seq == 1
    assert scans(filled, statements) == []


async def test_the_drain_looks_nothing_up_by_a_scan(filled: Proxy) -> None:
    journal = filled.journal()
    first = exchange([user("a")], "b", prompt=[1, 2])
    await write(
        journal, first, exchange([user("a"), said("b"), user("c")], prompt=[1, 2, 7, 8, 9, 4]), exchange([user(BROKEN_WORD)])
    )
    journal.close()
    with asked() as statements:
        assert filled.drain() == 3
    assert any("event_id" in statement and "quarantine" in statement for statement, _ in statements)
    assert scans(filled, statements) == []
    assert by_tenant_alone(filled, statements) == []


async def test_what_rewards_training_and_erasure_ask_is_found_by_more_than_the_tenant(
    filled: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exchanges, "_counter", count(1 << 96))  # above what was filled in
    with asked() as statements:
        (event_id,) = await stored(filled, call(filled, "q"))
        reward(filled, event_id)
        filled.clock.advance(10)
        held = lease(filled)
        assert held.samples
        ack(filled, held)
        with filled.services.database.read() as connection:
            get = find_event(connection, TENANT, event_id)
        assert get is not None
        erased(filled, "trajectory", get.trajectory_id)
    questions = [(statement, bound) for statement, bound in statements if "1 != 1" not in statement]  # IN of nothing
    lent = [one for one in questions if re.search("FROM trajectory LEFT OUTER JOIN agent.*ORDER BY", one[0], re.DOTALL)]
    assert len(lent) >= 2 and without("ix_trajectory_lendable", filled, lent) == []
    assert len(questions) > 60
    assert scans(filled, questions) == []
    assert by_tenant_alone(filled, questions) == []

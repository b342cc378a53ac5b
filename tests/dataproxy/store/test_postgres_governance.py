"""Proof and erasure on PostgreSQL: the log verifies, what only a superuser could change is named, what was erased is gone."""

from collections.abc import Callable
from pathlib import Path

import psycopg
import pytest
from sqlalchemy import select, update
from sqlalchemy.exc import DBAPIError

from dataproxy.client.review_types import AuditReport
from dataproxy.ledger.verify import verify
from dataproxy.retain.erase import erase, plan_erasure
from dataproxy.retain.targets import resolve
from dataproxy.store.postgres import PostgresUrls
from dataproxy.store.schema import content, event, token_segment, trajectory
from tests.dataproxy.ledger.lived_in import live
from tests.dataproxy.proxy import Clock, Proxy
from tests.postgres import PostgresDatabase

pytestmark = pytest.mark.slow


@pytest.fixture
async def proxy(tmp_path: Path, postgres_database: PostgresDatabase, clock: Clock):
    made = Proxy(tmp_path, clock, PostgresUrls(postgres_database.urls.app))
    made.consent()
    await live(made, clock)
    made.services.checkpoints.cut()
    yield made
    made.services.database.close()


def audited(proxy: Proxy) -> AuditReport:
    checkpoints = proxy.services.checkpoints
    with proxy.services.database.read() as connection:
        *_, report = verify(connection, None, checkpoints.signer.verifier, checkpoints.read_file())
    assert isinstance(report, AuditReport)
    return report


async def test_an_untouched_store_verifies(proxy: Proxy) -> None:
    report = audited(proxy)
    assert report.ok and report.leaves > 10 and report.checkpoints > 0


@pytest.mark.parametrize(
    "change",
    [
        lambda raw: raw.execute("UPDATE event SET model = 'another' WHERE position = (SELECT min(position) FROM event)"),
        lambda raw: raw.execute("DELETE FROM eligibility WHERE event_id = (SELECT min(event_id) FROM eligibility)"),
        lambda raw: raw.execute("UPDATE reward SET value = value + 1"),
        lambda raw: raw.execute("UPDATE token_segment SET output_ids = '\\x00'"),
        lambda raw: raw.execute(
            "DELETE FROM log_leaf WHERE leaf_index = (SELECT max(leaf_index) FROM log_leaf WHERE tenant = 'acme')"
        ),
        lambda raw: raw.execute("UPDATE consent SET training = NOT training"),
    ],
)
async def test_what_a_superuser_changed_behind_the_guards_is_named(
    proxy: Proxy, postgres_database: PostgresDatabase, change: Callable[[psycopg.Connection], object]
) -> None:
    with postgres_database.server.superuser(postgres_database.name) as raw:
        raw.execute("SET session_replication_role = replica")
        change(raw)
    report = audited(proxy)
    assert not report.ok and report.problems


async def test_what_was_erased_is_gone_and_the_log_verifies(proxy: Proxy, clock: Clock) -> None:
    services = proxy.services
    (name,) = proxy.rows(
        select(trajectory.c.trajectory_id).where(trajectory.c.tenant == "acme").order_by(trajectory.c.trajectory_id).limit(1)
    )[0]
    with services.database.read() as connection:
        plan = plan_erasure(connection, resolve(connection, "acme", "trajectory", name, services.digests("acme")))
    before = proxy.count(content)
    with services.database.write() as connection:
        erase(connection, plan, "asked for it", "key-9", clock())
    assert proxy.rows(select(token_segment.c.event_id).where(token_segment.c.trajectory_id == name)) == []
    erased = proxy.rows(select(event.c.body, event.c.subject).where(event.c.trajectory_id == name, event.c.kind == "model_call"))
    assert erased and set(erased) == {(b"", "")} and proxy.count(content) < before
    report = audited(proxy)
    assert report.ok and report.erased > 0


async def test_a_row_without_a_tombstone_is_not_blanked_by_the_data_proxys_own_role(proxy: Proxy) -> None:
    blank = update(event).where(event.c.kind == "model_call").values(subject="", request_digest=None, body=b"")
    with pytest.raises(DBAPIError, match="append-only"), proxy.services.database.write() as connection:
        connection.execute(blank)

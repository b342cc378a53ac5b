"""The same proof on SQLite and on PostgreSQL: a lived-in store verifies, before and after an erasure, and a change is named."""

import pytest
from sqlalchemy import select, update
from sqlalchemy.exc import DBAPIError

from dataproxy.client.review_types import AuditReport, LegalHold
from dataproxy.errors import Refused
from dataproxy.ledger.verify import verify
from dataproxy.retain.erase import erase, plan_erasure
from dataproxy.retain.holds import add_hold, release_hold
from dataproxy.retain.targets import resolve
from dataproxy.store.schema import content, event
from tests.dataproxy.ledger.lived_in import live
from tests.dataproxy.proxy import Clock, Proxy


def audit(proxy: Proxy) -> AuditReport:
    checkpoints = proxy.services.checkpoints
    with proxy.services.database.read() as connection:
        *_, report = verify(connection, None, checkpoints.signer.verifier, checkpoints.read_file())
    assert isinstance(report, AuditReport)
    return report


@pytest.mark.slow
async def test_a_lived_in_store_verifies_and_a_changed_text_is_named(proxy: Proxy, clock: Clock) -> None:
    await live(proxy, clock)
    report = audit(proxy)
    assert report.ok and report.leaves > 15, report.problems
    with proxy.services.database.write() as connection:
        mine = select(content.c.digest, content.c.owner).where(content.c.tenant == "acme").order_by(content.c.digest)
        row = connection.execute(mine).first()
        assert row is not None
        connection.execute(
            update(content).where(content.c.tenant == "acme", content.c.digest == row.digest).values(data=b'"other"')
        )
    assert [(one.table, one.key) for one in audit(proxy).problems] == [("event", row.owner)]


async def test_erasure_leaves_a_log_that_verifies_and_nobody_else_may_change_a_row(proxy: Proxy, clock: Clock) -> None:
    await live(proxy, clock)
    services = proxy.services
    with services.database.write() as connection:
        hold = add_hold(connection, LegalHold("acme", "session", "named-acme", "case 7"), "key-9", 1)
    with services.database.read() as connection:
        target = resolve(connection, "acme", "session", "named-acme", services.digests("acme"))
        plan = plan_erasure(connection, target)
    with pytest.raises(Refused, match="case 7"), services.database.write() as connection:
        erase(connection, plan, "asked for it", "key-9", clock())
    with services.database.write() as connection:
        release_hold(connection, "acme", hold.hold_id, "closed", "key-9", 2)
        assert erase(connection, plan, "asked for it", "key-9", clock()).events == 1
    services.checkpoints.cut()
    report = audit(proxy)
    assert report.ok and report.erased == 1, report.problems
    for values in ({"body": b"{}"}, {"kind": "access"}):
        with pytest.raises(DBAPIError), services.database.write() as connection:
            connection.execute(update(event).where(event.c.tenant == "acme").values(values))

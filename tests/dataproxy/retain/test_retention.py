"""Retention: what has outlived its class goes, what is on hold or has no class stays, and the narrower word holds."""

import pytest
from sqlalchemy import select

from dataproxy.client.review_types import LegalHold, Retention
from dataproxy.errors import Refused
from dataproxy.retain.holds import add_hold
from dataproxy.retain.retention import expire, list_retention, set_retention
from dataproxy.store.schema import event
from tests.dataproxy.exchanges import exchange, user, write
from tests.dataproxy.ledger.lived_in import verified
from tests.dataproxy.proxy import Proxy

DAY_US = 86_400_000_000


async def speak(proxy: Proxy, *days: float, agent: str = "triage", tenant: str = "acme") -> None:
    """A conversation that ended on each of ``days``."""
    journal = proxy.journal()
    for day in days:
        at = int(day * DAY_US)
        pair = exchange(
            [user(f"on day {day}")], "ok", started_us=at, ended_us=at, session=f"{agent}-{day}", agent=agent, tenant=tenant
        )
        await write(journal, pair)
    journal.close()
    proxy.drain()


def keep(proxy: Proxy, days: float | None, agent: str = "") -> None:
    with proxy.services.database.write() as connection:
        set_retention(connection, Retention("acme", f"class-{days}", days, "contract", agent), "key-1", proxy.clock())
    proxy.clock.advance(1)


def left(proxy: Proxy) -> set[str]:
    where = (event.c.kind == "model_call", event.c.tenant == "acme")
    rows = proxy.rows(select(event.c.session_id, event.c.body).where(*where))
    return {row.session_id for row in rows if row.body}


async def test_what_has_outlived_its_class_goes_and_the_log_verifies(proxy: Proxy) -> None:
    await speak(proxy, 1, 5, 9)
    await speak(proxy, 1, agent="billing")
    await speak(proxy, 1, tenant="other")
    assert expire(proxy.services.database, 10 * DAY_US) == []
    keep(proxy, 3)
    keep(proxy, None, agent="billing")
    done = expire(proxy.services.database, 10 * DAY_US)
    assert [(one.scope, one.target, one.events) for one in done] == [("retention", "class-3", 2)]
    assert left(proxy) == {"triage-9", "billing-1"}
    assert expire(proxy.services.database, 10 * DAY_US) == []
    report = verified(proxy)
    assert report.ok and report.erased == 2, report.problems


@pytest.mark.parametrize(("scope", "target"), [("session", "triage-1"), ("agent", "triage"), ("tenant", "")])
async def test_what_is_on_hold_does_not_expire(proxy: Proxy, scope: str, target: str) -> None:
    await speak(proxy, 1, 2)
    keep(proxy, 0)
    with proxy.services.database.write() as connection:
        add_hold(connection, LegalHold("acme", scope, target, "case 7"), "key-1", 1)
    expire(proxy.services.database, 10 * DAY_US)
    assert left(proxy) == ({"triage-1"} if scope == "session" else {"triage-1", "triage-2"})


async def test_the_latest_word_of_the_narrowest_scope_holds(proxy: Proxy) -> None:
    await speak(proxy, 1)
    keep(proxy, 1)
    keep(proxy, 100, agent="triage")
    assert expire(proxy.services.database, 10 * DAY_US) == []
    keep(proxy, 2, agent="triage")
    assert len(expire(proxy.services.database, 10 * DAY_US)) == 1
    with proxy.services.database.read() as connection:
        assert [one.days for one in list_retention(connection, "acme")] == [1, 100, 2]


@pytest.mark.parametrize("days", [-1, float("nan"), 1e9])
def test_days_that_are_none_are_refused(proxy: Proxy, days: float) -> None:
    with pytest.raises(Refused, match="not negative"):
        keep(proxy, days)

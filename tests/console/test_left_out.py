"""What a version's batch left out, and what a tenant is told of batches: nothing of another tenant's, and where its own stands."""

import pytest
from sqlalchemy import select

from dataproxy.store.schema import access_log, lease_item
from tests.console.browse import Browser
from tests.console.conftest import Stage
from tests.console.story import BATCH

pytestmark = pytest.mark.slow


def test_what_was_lent_for_a_batch_and_left_out_is_named_to_whoever_may_see_it(stage: Stage) -> None:
    ours, said_nothing = stage.names["hostile"], stage.names["failed"]
    lent: list[tuple[str, str, str | None]] = [
        ("acme", ours, "no_credit"),
        ("other", "tr-theirs", "no_credit"),
        ("acme", said_nothing, None),
    ]
    lent += [("acme", stage.names["orders"], "trained"), *(("acme", f"tr-more-{number}", "stale") for number in range(60))]
    of_lease = {"lease_id": "lease-1", "held": False, "vaulted": False}
    with stage.proxy.services.database.write() as connection:
        rows = [of_lease | {"tenant": tenant, "trajectory_id": name, "outcome": why} for tenant, name, why in lent]
        connection.execute(lease_item.insert(), rows)

    def left_out(browser: Browser, path: str) -> str:
        _, _, rest = browser.get(path).text.partition('id="left-out"')
        return rest.partition("</ul>")[0]

    operator, reviewer, stranger = stage.browser("admin", ""), stage.browser(), stage.browser("reviewer", "other")
    for path in ("/versions/v000004", f"/batches/{BATCH}"):
        shown = left_out(operator, path)
        assert f'href="/console/trajectories/{ours}?tenant=acme"' in shown and "tr-theirs" in shown and "and 12 more" in shown
        assert "no reward reached any of its turns" in shown and shown.count("<li>") == 50
        assert said_nothing not in shown and stage.names["orders"] not in shown
    shown = left_out(reviewer, "/versions/v000004")
    assert ours in shown and "tr-theirs" not in shown and "and 11 more" in shown
    assert "Those of your tenant alone are shown." in reviewer.text
    shown = left_out(stranger, "/versions/v000004")
    assert "tr-theirs" in shown and "tr-more" not in shown and ours not in stranger.page and "more</li>" not in shown
    assert "None of your trajectories." in stranger.text
    of_operator = (access_log.c.tenant == "other", access_log.c.role == "admin")
    assert {row.what for row in stage.proxy.rows(select(access_log.c.what).where(*of_operator))} == {"version", "batch"}
    assert "left-out" not in stage.browser("reviewer", "third").get("/versions/v000004").text
    assert f'href="/console/trajectories/{ours}' not in left_out(stage.browser("trainer", ""), "/versions/v000004")


def test_a_tenant_that_asks_for_a_batch_is_told_where_its_own_part_stands(stage: Stage) -> None:
    browser = stage.browser()
    told = [browser.get(f"/batches/{name}").text.replace(name, "NAME") for name in (BATCH, "batch-of-nobody")]
    assert "shows each tenant its own" in browser.text and "no batch batch-of-nobody of this tenant" in browser.text
    assert told[0] == told[1]

"""Who said a thing: the key's id, and behind it its role and agent, to whoever may know of the key."""

import re

import pytest
from sqlalchemy import select

from dataproxy.client.types import Feedback
from dataproxy.console.rendering import when
from dataproxy.feedback import Desk, give_feedback
from dataproxy.store.schema import consent, event
from tests.console.conftest import Stage
from tests.console.test_consents import rows_of

pytestmark = pytest.mark.slow


def test_a_reward_names_the_role_and_agent_of_its_key_at_its_turn_and_on_the_time_line(stage: Stage) -> None:
    services, name = stage.proxy.services, stage.names["orders"]
    mine, theirs = id_of(stage, "agent", "acme"), id_of(stage, "agent", "other")
    turn = stage.proxy.rows(select(event.c.event_id).where(event.c.trajectory_id == name))[0][0]
    desk = Desk("acme", services.mac_secret, services.digests("acme"))
    for key_id in (mine, theirs):
        with services.database.write() as connection:
            give_feedback(connection, desk, Feedback(turn, correction="at noon", source="human"), key_id, stage.proxy.clock())
    reviewer, operator = stage.browser(), stage.browser("admin", "")
    reviewer.get(f"/trajectories/{name}")
    assert reviewer.text.count(f"human, by {mine} (agent billing)") == 2
    assert reviewer.text.count(f"human, by {theirs}") == 2 and f"{theirs} (" not in reviewer.text
    operator.get(f"/trajectories/{name}?tenant=acme")
    assert operator.text.count(f"human, by {theirs} (agent billing)") == 2


def test_a_consent_and_a_retention_say_who_put_them_on_record_and_when(stage: Stage) -> None:
    admin = stage.browser("admin")
    given = {"tenant": "acme", "agent": "", "session": "", "recording": "yes", "training": "no", "reason": "asked by mail"}
    admin.get("/consents")
    admin.post("/consents", **given)
    admin.post("/retention", tenant="acme", agent="", name="short", days="30", reason="contract")
    (row,) = stage.proxy.rows(select(consent).where(consent.c.reason == "asked by mail"))
    who = f"{row.key_id} (admin triage)"
    page = stage.browser().get("/consents").text
    assert rows_of(page, "Consents in force now")[0][5] == who + when(row.created_us)
    newest = rows_of(page, "Consents on record")[0]
    assert (newest[0], newest[7]) == (when(row.created_us), who)
    assert re.sub(r"<[^>]*>", "", page.split('aria-label="Retention"')[1]).count(who) == 1


def test_a_hold_says_who_put_it(stage: Stage) -> None:
    reviewer = stage.browser()
    reviewer.get("/holds")
    reviewer.post("/holds", tenant="acme", scope="session", target="shop-1", reason="a claim")
    assert re.search(r"by key-[^ ]+ \(reviewer triage\)", reviewer.text)


def id_of(stage: Stage, role: str, tenant: str) -> str:
    """A new key's id."""
    found = stage.proxy.services.keys.find(stage.proxy.key(role, tenant, "billing"), stage.proxy.clock())
    assert found is not None
    return found.key_id

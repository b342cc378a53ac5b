"""Who read a thing: under whatever name it was read, and who may have seen it without naming it."""

import re

import pytest
from sqlalchemy import select

from dataproxy.client.review_types import NO_PURPOSE, OWN_PURPOSE
from dataproxy.client.types import KeyInfo
from dataproxy.store.access import record_access
from dataproxy.store.schema import event, trajectory
from tests.console.conftest import Stage
from tests.dataproxy.ledger.lived_in import READER

pytestmark = pytest.mark.slow


def whats(page: str) -> list[str]:
    """What the page's rows say was read, up to the list of what may have held it; then those."""
    return re.findall(r"</small></td><td>([a-z ]+)</td>", page)


def test_reads_are_found_by_trajectory_session_and_turn_under_whatever_name(stage: Stage) -> None:
    name = stage.names["hostile"]
    turns = [row.event_id for row in stage.proxy.rows(select(event.c.event_id).where(event.c.trajectory_id == name))]
    (session_id,) = stage.proxy.rows(select(trajectory.c.session_id).where(trajectory.c.trajectory_id == name))[0]
    reader, looker = stage.browser(), stage.browser()
    reader.get(f"/trajectories/{name}")
    reader.get(f"/events/{turns[0]}/tokens")
    reader.get(f"/evidence?trajectory={name}")
    reader.get("/exports/jsonl")
    for asked in (name, session_id):
        page = looker.get(f"/access?target={asked}").text
        direct, _, many = page.partition("Reads of many")
        assert {"trajectory", "tokens", "evidence"} <= set(whats(direct)), asked
        assert "export of trajectories" in whats(many) and "trajectory" not in whats(many)
    of_turn = looker.get(f"/access?target={turns[0]}").text.partition("Reads of many")[0]
    assert {"trajectory", "tokens"} <= set(whats(of_turn))
    assert "tokens" not in whats(looker.get("/access?target=of-nobody").text)
    assert looker.get(f"/trajectories?text={session_id}").url.params["session"] == session_id


def test_a_read_without_a_purpose_says_so_in_the_words_of_the_command_line(stage: Stage) -> None:
    ours = KeyInfo("internal-gateway-0123456789ab", "", "", "gateway", [], 0, None, None)
    with stage.proxy.services.database.write() as connection:
        for reader in (READER, ours):
            record_access(connection, reader, "acme", "event", "of-nobody-in-particular", stage.proxy.clock())
    browser = stage.browser()
    browser.get("/access?target=of-nobody-in-particular&what=event")
    assert browser.text.count(NO_PURPOSE) == browser.text.count(OWN_PURPOSE) == 1

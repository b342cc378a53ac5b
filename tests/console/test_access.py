"""Who read a thing: under whatever name it was read, and who may have seen it without naming it."""

import re
from datetime import UTC, datetime
from urllib.parse import parse_qsl

import pytest
from sqlalchemy import select

from atdp.ids import new_event_id
from dataproxy.client.review_types import NO_PURPOSE, OWN_PURPOSE
from dataproxy.client.types import KeyInfo
from dataproxy.store.access import record_access
from dataproxy.store.schema import access_log, event, trajectory
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


@pytest.mark.parametrize(
    ("query", "shown"),
    [
        ("since=2026-01-05&until=2026-01-06", {"tr-early", "tr-noon", "tr-late"}),
        ("since=2026-01-05T12:00&until=2026-01-05T12:01", {"tr-noon"}),
        ("until=2026-01-06&purpose=COMPLAINT", {"tr-noon"}),
        ("until=2026-01-06&purpose=no+purpose", {"tr-late"}),
        ("until=2026-01-05", set()),
    ],
)
def test_reads_are_filtered_by_time_and_purpose(stage: Stage, query: str, shown: set[str]) -> None:
    rows = []
    for hour, target, purpose in ((8, "tr-early", "audit"), (12, "tr-noon", "a complaint of 4 January"), (20, "tr-late", "")):
        at_us = int(datetime(2026, 1, 5, hour, tzinfo=UTC).timestamp() * 1e6)
        row = {"tenant": "acme", "event_id": f"{at_us // 1000:012x}{new_event_id()[12:]}", "key_id": "key-0", "role": "reviewer"}
        rows.append(row | {"what": "event", "target": target, "at_us": at_us, "purpose": purpose})
    with stage.proxy.services.database.write() as connection:
        connection.execute(access_log.insert(), rows)
    page = stage.browser().get(f"/access?{query}").text
    assert set(re.findall(r">(tr-[a-z]+)<", page)) == shown
    assert all(f'value="{value}"' in page for _, value in parse_qsl(query))


def test_ones_own_reads_are_left_out_on_demand(stage: Stage) -> None:
    me, another = stage.browser(), stage.browser()
    another.get("/trajectories")
    another.get(f"/trajectories/{stage.names['orders']}")
    me.get(f"/trajectories/{stage.names['hostile']}")
    every, others = me.get("/access").text, me.get("/access?others=yes").text
    (mine,) = stage.proxy.rows(select(access_log.c.key_id).order_by(access_log.c.event_id.desc()).limit(1))[0]
    assert f">{mine}</a>" in every and f">{mine}</a>" not in others
    assert f">{stage.names['orders']}</a>" in others and f">{stage.names['hostile']}</a>" in every
    of_one = me.get(f"/access?target={stage.names['hostile']}&others=yes").text
    assert f">{mine}</a>" not in of_one and "Reads of many" in of_one


def test_a_time_that_cannot_be_read_is_said(stage: Stage) -> None:
    browser = stage.browser()
    assert browser.get("/access?since=yesterday").status_code == 400 and "`since` is a date" in browser.text

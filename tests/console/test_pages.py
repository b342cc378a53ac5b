"""Each page with what stands on it, and each role's limits."""

import html
import re

import pytest
from sqlalchemy import select

from dataproxy.client.types import Feedback
from dataproxy.console.rendering import when
from dataproxy.feedback import Desk, give_feedback
from dataproxy.ledger.bundle import ALSO_HELD
from dataproxy.store.schema import access_log, event, reward
from tests.console.browse import PURPOSE
from tests.console.conftest import Stage
from tests.console.story import BATCH, HOSTILE, NOW_US

pytestmark = pytest.mark.slow

ALL = (
    *("/trajectories", "/access", "/review", "/consents", "/holds", "/verify", "/erasure", "/tenants", "/keys", "/learning"),
    "/live",
)
OPEN = {
    "reviewer": {"/trajectories", "/access", "/review", "/consents", "/holds", "/verify", "/learning"},
    "trainer": {"/learning", "/live"},
    "admin": set(ALL),
}


@pytest.mark.parametrize("role", OPEN)
def test_each_role_opens_its_pages_and_is_refused_the_others(stage: Stage, role: str) -> None:
    browser = stage.browser(role)
    for path in ALL:
        assert browser.get(path).status_code == (200 if path in OPEN[role] else 403), path
        named = set(re.findall(r'href="/console(/[a-z]+)" data-key', browser.page))
        assert named == OPEN[role], path
    status = 403 if role == "trainer" else 200
    assert browser.get(f"/trajectories/{stage.names['orders']}").status_code == status
    assert browser.get(f"/trajectories/{stage.names['orders']}/proof").status_code == status


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("", {"orders", "hostile", "failed"}),
        ("text=DHL", {"orders"}),
        ("text=no-such-word", set()),
        ("agent=crawler", {"hostile", "failed"}),
        ("session=shop-1", {"orders"}),
        ("kind=PASSWORD", {"orders"}),
        ("reason=eligible", {"orders", "hostile"}),
        ("reason=http_error", {"failed"}),
        ("outcome=error", {"failed"}),
        ("outcome=ok", {"orders", "hostile"}),
        ("rewarded=yes", {"orders"}),
        ("rewarded=no", {"hostile", "failed"}),
        ("min_reward=1.5", {"orders"}),
        ("max_reward=1.4", set()),
        ("version=v000000", {"orders", "hostile"}),
        ("model=tiny", {"orders", "hostile", "failed"}),
        ("model=other", set()),
        ("since=2026-05-28T20:40", {"failed"}),
        ("until=2026-05-28T20:30%2B00:00", {"orders"}),
        ("agent=crawler&outcome=ok", {"hostile"}),
        ("tool=find_order", {"orders"}),
        ("tool=no_such_tool", set()),
        ("eligible=yes", {"orders", "hostile"}),
        ("eligible=no", {"failed"}),
        ("error=500", {"failed"}),
        ("error=tool", set()),
        ("error=disconnected", set()),
        ("release=r-7", set()),
        ("release=shop-2026.11", {"orders"}),
        ("release=shop-2026", set()),
        ("lane=canary", set()),
    ],
)
def test_filters_find_what_they_say(stage: Stage, query: str, found: set[str]) -> None:
    browser = stage.browser()
    assert browser.get(f"/trajectories?{query}").status_code == 200
    shown = set(re.findall(r'href="/console/trajectories/([^"?/]+)"', browser.page))
    assert shown == {stage.names[name] for name in found}


@pytest.mark.parametrize(
    "query", ["since=yesterday", "min_reward=nan", "version=7", "after=x", "outcome=maybe", "error=7", "text=" + "x" * 300]
)
def test_what_cannot_be_read_is_said_or_cut_and_breaks_nothing(stage: Stage, query: str) -> None:
    assert stage.browser().get(f"/trajectories?{query}").status_code == (200 if query.startswith("text") else 400)


def test_a_trajectory_reads_like_the_conversation(stage: Stage) -> None:
    browser = stage.browser()
    browser.get(f"/trajectories/{stage.names['orders']}")
    text = browser.text
    order = [
        "You help customers",
        "Where is my order 1042?",
        "calls find_order",
        '"carrier": "DHL"',
        "It was shipped by DHL",
        "DHL takes two days",
        "Tomorrow before noon.",
    ]
    places = [text.index(piece) for piece in order]
    assert places == sorted(places)
    assert text.count("Where is my order") == 1  # what is resent is not shown again
    assert '<mark title="redacted: PASSWORD">&lt;PASSWORD_1&gt;' in browser.page
    for piece in (
        "altered",
        "eligible",
        "v000004",
        "helpful",
        "solved",
        "the date was asked for",
        "key-judge",
        "1.5",
        "180 ms",
        "w1",
    ):
        assert piece in text, piece


def test_what_was_redacted_in_a_tools_call_and_result_is_marked_with_its_kind(stage: Stage) -> None:
    browser = stage.browser()
    browser.get(f"/trajectories/{stage.names['orders']}")
    (turn,) = (article for article in browser.page.split("</article>") if '<span class="kind">tool call</span>' in article)
    mark = '<mark title="redacted: PASSWORD">&lt;PASSWORD_1&gt;<small>PASSWORD</small></mark>'
    parts = dict(re.findall(r'<div class="part (call|result)">(.*?)</div>', turn, re.S))
    assert f"&#34;mail&#34;: &#34;{mark}&#34;" in parts["call"] and f"&#34;door code&#34;: &#34;{mark}&#34;" in parts["result"]
    assert '<span class="tag mark">PASSWORD 2</span>' in turn


def test_a_turn_shows_its_own_reward_with_who_gave_it_and_when(stage: Stage) -> None:
    browser = stage.browser()
    browser.get(f"/trajectories/{stage.names['orders']}")
    (event_id,) = stage.proxy.rows(select(reward.c.target_id).where(reward.c.name == "helpful"))[0]
    (turn,) = (article for article in browser.page.split("</article>") if 'class="earned"' in article)
    (line,) = re.findall(r'<p class="earned">(.*?)</p>', turn, re.S)
    said = " ".join(html.unescape(re.sub(r"<[^>]*>", "", line)).split())
    assert said == f"reward helpful 0.5 judge, by key-judge, {when(NOW_US + 60 * 60_000_000)} What was said with it"
    (number,) = re.findall(rf'id="e-{event_id}">\s*<header><h2>(\d+) ', turn)
    assert f'for <a href="#e-{event_id}">turn {number}</a>' in browser.page
    (reward_id,) = re.findall(r'href="#r-([^"]+)"', line)
    assert browser.page.count(f'<li id="r-{reward_id}"') == 1


def test_tokens_show_ids_logprobs_and_what_is_not_learned_from(stage: Stage) -> None:
    browser = stage.browser()
    browser.get(f"/trajectories/{stage.names['orders']}")
    path = re.findall(r'href="/console(/events/[^"]+/tokens[^"]*)"', browser.page)[0]
    browser.get(path)
    assert re.findall(r'<li class="(h\d[^"]*)" title="\d+: id (\d+)', browser.page)[2] == ("h0 altered", "16")
    assert "loss mask 1, can be learned from5" in browser.text and "loss mask 0, altered by redaction1" in browser.text
    boxes = re.findall(r"<li class=\"h\d[^>]*>(\d+)<small>([^<]*)</small>", browser.page)
    assert [said == "altered" for _, said in boxes] == [False, False, True, False, False, False]
    piece = browser.get(path, **{"hx-request": "true"}).text
    assert piece.startswith("<section") and "<html" not in piece


def test_tokens_say_on_top_why_their_turn_may_not_train_and_lead_to_the_decision(stage: Stage) -> None:
    browser = stage.browser()
    browser.get(f"/trajectories/{stage.names['orders']}")
    why = "redaction overwrote too much of it (2 of 10 tokens, the prompt's included: 20 %; at most 15 % may be"
    assert browser.text.count(why) == 1
    first, *others = re.findall(r'href="/console(/events/[^"]+/tokens[^"]*)"', browser.page)
    for headers in ({}, {"hx-request": "true"}):
        browser.get(first, **headers)
        assert f"This turn may not train: {why}" in browser.text.partition("choice 0")[0]
    event_id = first.split("/")[2]
    seq = stage.proxy.rows(select(event.c.seq).where(event.c.event_id == event_id))[0][0]
    (link,) = re.findall(r'id="why-not">[^<]*<a href="/console([^"]+)"', browser.page)
    assert link.endswith(f"&amp;start={seq}#e-{event_id}")
    browser.get(html.unescape(link))
    assert why in browser.page.partition(f'id="e-{event_id}"')[2].partition("</article>")[0].replace("&#39;", "'")
    assert len(others) == 2
    for path in others:
        assert "may not train" not in browser.get(path).text


def test_hostile_words_are_text_and_a_megabyte_is_bounded(stage: Stage) -> None:
    browser = stage.browser()
    size = len(browser.get(f"/trajectories/{stage.names['hostile']}").content)
    assert size < 80_000
    body = browser.page.split("<main", 1)[1]
    assert "<script" not in body and "<img" not in body and "<style" not in body and "<b>boss" not in body
    assert HOSTILE[:30] in browser.text and "980,000 more characters" in browser.text
    assert not set("\x1b\u202e\u202c\u200b") & set(browser.page)
    for path in ("/trajectories", f"/trajectories/{stage.names['orders']}"):
        browser.get(path)
        assert "<script>document" not in browser.page and not set("\x1b\u202e") & set(browser.page)


def test_another_tenants_trajectory_is_one_that_was_never_there(stage: Stage) -> None:
    stranger = stage.browser("admin", "other")
    name = stage.names["orders"]
    for path in ("/trajectories/{}", "/trajectories/{}/proof", "/trajectories/{}?tenant=acme"):
        theirs, nobodys = stranger.get(path.format(name)), stranger.get(path.format("tr-0"))
        assert theirs.status_code == nobodys.status_code == 404
    assert stage.names["orders"] not in stranger.get("/trajectories").text
    assert "No read fits" in stranger.get(f"/access?target={name}&what=trajectory").text
    assert stranger.get("/evidence?tenant=acme").status_code == 404
    assert stranger.post("/erasure", tenant="acme", scope="trajectory", target=name, reason="r").status_code in (403, 404)


def test_where_evidence_is_asked_for_it_is_said_that_it_holds_the_whole_access_log(stage: Stage) -> None:
    browser, name = stage.browser(), stage.names["orders"]
    for path in (f"/trajectories/{name}", f"/trajectories/{name}/proof", "/verify"):
        browser.get(path)
        assert "Take evidence with you" in browser.text and ALSO_HELD in browser.text, path


def test_an_operator_sees_every_tenant_and_is_on_that_tenants_record(stage: Stage) -> None:
    operator = stage.browser("admin", "")
    assert operator.get(f"/trajectories/{stage.names['orders']}?tenant=acme").status_code == 200
    where = (access_log.c.tenant == "acme", access_log.c.target == stage.names["orders"], access_log.c.role == "admin")
    assert stage.proxy.rows(select(access_log.c.purpose).where(*where))[-1][0] == PURPOSE


def test_who_read_a_trajectory_is_found(stage: Stage) -> None:
    browser = stage.browser()
    browser.get(f"/trajectories/{stage.names['hostile']}")
    browser.get(f"/access?target={stage.names['hostile']}&what=trajectory")
    assert PURPOSE in browser.text.split("Purpose", 1)[1] and "is called so" not in browser.text
    assert "reviewer triage" in browser.text  # role and agent of the key that read
    assert "No trajectory, session or turn here is called so" in browser.get("/access?target=tr-of-nobody&others=yes").text


def test_the_quarantine_says_why_and_shows_nothing(stage: Stage) -> None:
    assert "redaction_not_located" in stage.browser().get("/quarantine").text


def test_a_turn_says_why_and_a_trajectory_how_far_it_is(stage: Stage) -> None:
    browser = stage.browser()
    assert "the answer was an error" in browser.get(f"/trajectories/{stage.names['failed']}").text
    assert "Nothing of it may train" in browser.text
    assert "Its one call of the model may not train. " in browser.text
    assert "2 of its 3 calls of the model may train. " in browser.get(f"/trajectories/{stage.names['orders']}").text
    assert "It waits for a reward" in browser.get(f"/trajectories/{stage.names['hostile']}").text
    assert "no consent to train was on record" in browser.get("/terms").text
    for word in ("choice", "dialect", "open, closed", "admit-1-…", "stale", "other_temperature"):
        assert f">{word}<" in browser.page, word


def test_learning_shows_alarms_with_their_rules_and_two_versions_beside_each_other(stage: Stage) -> None:
    browser = stage.browser("admin", "")
    text = browser.get("/learning").text
    for piece in ("reward drop", "3 standard errors", "starvation", "What became of versions", "Entropy", "headrace rollback"):
        assert piece in text, piece
    text = browser.get("/compare?first=v000003&second=v000004").text
    assert "Entropy" in text and "1.4" in text and "-0.2" in text and "Too few trajectories" in text
    assert browser.get("/compare?first=v000003&second=v000099").status_code == 404
    reviewer = stage.browser()
    assert "Entropy" not in reviewer.get("/compare?first=v000003&second=v000004").text


def test_a_batch_is_rebuilt_with_the_rewards_of_its_time(stage: Stage) -> None:
    operator = stage.browser("admin", "")
    operator.get("/versions/v000004")
    text = operator.get(f"/batches/{BATCH}").text
    assert "The one reward is what the rewards of that time add up to" in text and "stale 2" in text and "clip_low" in text
    assert "Rewarded trajectories that the lease or the trainer passed over" in text
    assert stage.browser().get(f"/batches/{BATCH}").status_code == stage.browser().get("/batches/no").status_code == 404


def test_a_version_says_which_turns_it_learned_from_and_why_not_from_the_others(stage: Stage) -> None:
    readers = {
        "/versions/v000004": (stage.browser(), stage.browser("admin", "")),
        f"/batches/{BATCH}": (stage.browser("admin", ""),),
    }
    for browser, path in ((one, path) for path, browsers in readers.items() for one in browsers):
        browser.get(path)
        assert "2 of 3 turns1 left out, altered redaction overwrote too much of it" in browser.text
        assert "Where is my order 1042?" in browser.text and f"triage · {stage.names['orders']}" in browser.text
    trainer = stage.browser("trainer", "")
    assert "2 of 3 turns" in trainer.get("/versions/v000004").text and "order 1042" not in trainer.text


def test_an_admin_sees_its_own_tenant_and_an_operator_all(stage: Stage) -> None:
    stage.proxy.key("reviewer", "other")
    mine, every = stage.browser("admin").get("/tenants").text, stage.browser("admin", "").get("/tenants").text
    assert "acme" in mine and "other" not in mine and "acme" in every and "other" in every


def test_what_a_version_learned_from_is_found(stage: Stage) -> None:
    browser = stage.browser()
    assert re.search(r'class="serving".*?v000004', browser.get("/learning").text, re.S)
    assert stage.names["orders"] in browser.get("/versions/v000004").text
    assert "loss" not in browser.text  # a tenant sees no figure that other tenants' traffic made
    assert "loss" in stage.browser("admin", "").get("/versions/v000004").text


def test_a_release_is_shown_at_its_turn_and_a_harness_is_found_by_its_fingerprint(stage: Stage) -> None:
    browser = stage.browser()
    browser.get(f"/trajectories/{stage.names['orders']}")
    assert browser.text.count("shop-2026.11") == browser.text.count("manuals@41") == 1
    assert re.search(r"<dt>tools</dt><dd>\w+ [0-9a-f]{12}[<,]", browser.page)
    harness = re.findall(r"<dt>harness</dt><dd>([0-9a-f]{32})", browser.page)[0]
    for given, found in ((harness, 1), (harness[:8], 1), (harness[:7], 0)):
        browser.get(f"/trajectories?release={given}")
        assert browser.page.count(f"/console/trajectories/{stage.names['orders']}") == found, given


def test_a_version_shows_the_reward_that_was_used_and_todays_where_it_is_another(stage: Stage) -> None:
    services = stage.proxy.services
    browsers = (stage.browser(), stage.browser("admin", ""))
    for browser in browsers:
        browser.get("/versions/v000004")
        assert "Reward used" in browser.text and ">1.5</span></td>" in browser.page
    later = Feedback(stage.names["orders"], value=-0.5, name="complaint", source="human")
    with services.database.write() as connection:
        desk = Desk("acme", services.mac_secret, services.digests("acme"))
        give_feedback(connection, desk, later, "key-h", stage.proxy.clock() + 86_400_000_000)
    for browser in browsers:
        browser.get("/versions/v000004")
        assert "1.5now 1" in browser.text and "that time" not in browser.text.split("Reward used")[-1]
    stranger = stage.browser("reviewer", "other")
    stranger.get("/versions/v000004")
    assert "None of your trajectories." in stranger.text and "1.5" not in stranger.text


def test_the_model_as_it_came_learned_from_nothing(stage: Stage) -> None:
    for browser in (stage.browser(), stage.browser("admin", "")):
        browser.get("/versions/v000000")
        assert "Nothing: it is the model as it came." in browser.text
    browser.get("/versions/v000002")
    assert "Nothing is on record." in browser.text and "None of your trajectories" not in browser.text

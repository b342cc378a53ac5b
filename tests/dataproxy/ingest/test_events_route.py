"""Posted events: a receipt for each, stored once, redacted, placed in their session's trajectory, never another tenant's."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from sqlalchemy import select

from atdp.ids import event_id_in
from dataproxy.client import SyncDataProxyClient
from dataproxy.client.types import Feedback
from dataproxy.store.reading import find_event
from dataproxy.store.schema import access_log, eligibility, event, session, token_segment, trajectory
from tests.dataproxy.api.served import serve
from tests.dataproxy.exchanges import exchange, user, write
from tests.dataproxy.proxy import BROKEN_WORD, SECRET_WORD, Proxy

BASE = {"kind": "retrieval", "started_at": 1_000_000, "ended_at": 2_000_000}


@pytest.fixture
def socket_path(proxy: Proxy, tmp_path: Path) -> Iterator[Path]:
    with serve(proxy.services, tmp_path / "api.sock") as path:
        yield path


def post(path: Path, key: str, events: Any, **headers: str) -> httpx.Response:
    with httpx.Client(transport=httpx.HTTPTransport(uds=str(path)), base_url="http://x", timeout=60) as http:
        return http.post("/v1/events", json=events, headers={"authorization": f"Bearer {key}", **headers})


def receipts(path: Path, key: str, events: list[Any], **headers: str) -> list[tuple[str, str]]:
    answer = post(path, key, {"events": events}, **headers)
    assert answer.status_code == 200, answer.text
    return [(one["status"], one.get("field", "")) for one in answer.json()["receipts"]]


def test_each_event_gets_its_own_receipt_and_a_bad_one_harms_no_other(proxy: Proxy, socket_path: Path) -> None:
    batch = [
        {**BASE, "event_id": "e1"},
        {**BASE, "event_id": "e2", "kind": 7},
        {**BASE, "event_id": "e3"},
        {**BASE, "event_id": "e1"},
    ]
    key = proxy.key("agent")
    assert receipts(socket_path, key, batch) == [("stored", ""), ("refused", "kind"), ("stored", ""), ("duplicate", "")]
    assert receipts(socket_path, key, batch) == [("duplicate", ""), ("refused", "kind"), ("duplicate", ""), ("duplicate", "")]
    assert [row.event_id for row in proxy.rows(select(event).order_by(event.c.position))] == ["e1", "e3"]
    assert proxy.count(token_segment) == proxy.count(eligibility) == 0


def test_an_event_is_read_back_as_it_was_sent_but_for_what_was_redacted(proxy: Proxy, socket_path: Path) -> None:
    sent = {
        **BASE,
        "event_id": "e1",
        "x-new": {"kept": [1, None]},
        "o": {"messages": [user("hi"), user(f"it is {SECRET_WORD}")], "tools": [{"type": "function"}], "chunks": ["one"]},
        "h": {"plan": "look"},
        "a": {"query": SECRET_WORD},
        "y": {"status": 200},
        "r": [{"value": 0.5, "new": True}],
        "m": {"model": "bm25"},
        "subject": "person-7",
    }
    assert receipts(socket_path, proxy.key("agent"), [sent]) == [("stored", "")]
    with proxy.services.database.read() as connection:
        found = find_event(connection, "acme", "e1")
    assert found is not None
    assert found.o == {"messages": [user("hi"), user("it is <PASSWORD_1>")], "tools": [{"type": "function"}], "chunks": ["one"]}
    assert (found.h, found.a, found.y) == ({"plan": "look"}, {"query": "<PASSWORD_1>"}, {"status": 200})
    assert (found.r, found.m, found.extra) == ([{"value": 0.5, "new": True}], {"model": "bm25"}, {"x-new": {"kept": [1, None]}})
    assert (found.tenant, found.agent, found.boundary) == ("acme", "triage", "api")
    assert sorted(span.path for span in found.spans) == ["/a/query", "/request/messages/1/content"]
    at_rest = proxy.everything_at_rest()
    assert SECRET_WORD.encode() not in at_rest and b"person-7" not in at_rest


def test_what_cannot_be_redacted_is_refused_and_not_kept(proxy: Proxy, socket_path: Path) -> None:
    batch = [{**BASE, "event_id": "e1", "o": {"text": BROKEN_WORD}}, {**BASE, "event_id": "e2"}]
    assert receipts(socket_path, proxy.key("agent"), batch) == [("refused", ""), ("stored", "")]
    assert BROKEN_WORD.encode() not in proxy.everything_at_rest()


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"tenant": "other"}, "tenant"),
    ({"agent": "somebody"}, "agent"),
    ({"kind": "reward", "r": [{"target": "t", "name": "n", "source": "user", "value": 1}]}, "kind"),
    ({"kind": "erasure"}, "kind"),
    ({"event_id": "0" * 32}, "event_id"),
    ({"event_id": "a\nb"}, "event_id"),
    ({"event_id": SECRET_WORD}, "event_id"),
    ({"a": {"tokens": []}}, "a.tokens"),
    ({"o": {"messages": "hi"}}, "o.messages"),
    ({"ended_at": 0}, "ended_at"),
    ({"o": {"text": "x" * (1 << 20)}}, ""),
]


def test_what_is_refused_names_its_field(proxy: Proxy, socket_path: Path) -> None:
    batch = [{**BASE, "event_id": f"e{n}", **change} for n, (change, _) in enumerate(REFUSED)]
    assert receipts(socket_path, proxy.key("agent"), batch) == [("refused", field) for _, field in REFUSED]
    assert proxy.count(event) == 0


def test_what_is_no_batch_is_400_and_nothing_of_it_is_stored(proxy: Proxy, socket_path: Path) -> None:
    key = proxy.key("agent")
    for body in ([], {}, {"events": {}}, {"events": [{}] * 1001}):
        assert post(socket_path, key, body).status_code == 400
    assert proxy.count(event) == 0


def test_only_agents_and_admins_may_post_and_recording_needs_consent(proxy: Proxy, socket_path: Path) -> None:
    assert post(socket_path, proxy.key("reviewer"), {"events": []}).status_code == 403
    assert post(socket_path, "hr_no", {"events": []}).status_code == 401
    assert receipts(socket_path, proxy.key("agent", "quiet"), [{**BASE, "event_id": "e1"}]) == [("refused", "")]
    assert receipts(socket_path, proxy.key("admin"), [{**BASE, "event_id": "e1", "agent": "any"}]) == [("stored", "")]
    operator = proxy.files.api_key("admin")
    assert receipts(socket_path, operator, [{**BASE, "event_id": "e2", "agent": "any"}]) == [("refused", "tenant")]
    assert receipts(socket_path, operator, [{**BASE, "event_id": "e2", "agent": "any", "tenant": "acme"}]) == [("stored", "")]


async def test_an_event_joins_the_calls_of_its_session_and_a_later_call_joins_the_events(proxy: Proxy, socket_path: Path) -> None:
    key, journal = proxy.key("agent"), proxy.journal()
    early = {**BASE, "event_id": "early"}
    assert receipts(socket_path, key, [early], **{"x-headrace-session": "s1"}) == [("stored", "")]
    asked, got = exchange([user("hi")], session="s1", started_us=2_000_000)
    await write(journal, (asked, got))
    proxy.drain()
    child = {**BASE, "event_id": "child", "parent_id": asked.completion_id}
    named = {**BASE, "event_id": "named", "session_id": "s1"}
    alone = {**BASE, "event_id": "alone"}
    foreign = {**BASE, "event_id": "foreign", "parent_id": asked.completion_id}
    assert receipts(socket_path, key, [child, named, alone]) == [("stored", "")] * 3
    proxy.consent("other")
    assert receipts(socket_path, proxy.key("agent", "other"), [foreign]) == [("stored", "")]
    rows = {row.event_id: row for row in proxy.rows(select(event))}
    (joined,) = proxy.rows(select(trajectory).where(trajectory.c.tenant == "acme"))
    ids = ("early", asked.event_id, "child", "named")
    assert [(rows[name].trajectory_id, rows[name].session_id, rows[name].seq) for name in ids] == [
        (joined.trajectory_id, "s1", seq) for seq in range(4)
    ]
    assert joined.num_events == 4 and rows["child"].parent_id == asked.event_id == event_id_in(asked.completion_id)
    assert (rows["alone"].trajectory_id, rows["foreign"].trajectory_id) == ("", "")
    assert [row.tenant for row in proxy.rows(select(session))] == ["acme"]
    assert proxy.count(access_log) == 0
    journal.close()


def test_a_posted_event_is_rewarded_by_its_id(proxy: Proxy, socket_path: Path) -> None:
    key = proxy.key("agent")
    assert receipts(socket_path, key, [{**BASE, "event_id": "step-1", "session_id": "s1"}]) == [("stored", "")]
    with SyncDataProxyClient(socket_path, key) as client:
        given = client.feedback(Feedback(target="step-1", value=0.5))
    assert (given.target_kind, given.target_id, given.status) == ("event", "step-1", "stored")


def test_a_session_named_by_a_person_is_kept_under_a_digest(proxy: Proxy, socket_path: Path) -> None:
    key, named = proxy.key("agent"), [{**BASE, "event_id": f"e{i}", "session_id": f"of {SECRET_WORD}"} for i in range(2)]
    assert receipts(socket_path, key, named) == [("stored", "")] * 2
    (row,) = proxy.rows(select(session))
    assert row.session_id.startswith("digest-") and SECRET_WORD.encode() not in proxy.everything_at_rest()

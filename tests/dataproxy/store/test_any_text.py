"""NUL and other odd characters in names and free text, on either database: stored, found again, proven, and nothing is lost."""

import msgspec
import pytest
from sqlalchemy import select

from dataproxy.client.review_types import LegalHold, Retention
from dataproxy.client.types import Consent, Feedback
from dataproxy.feedback import Desk, give_feedback
from dataproxy.ingest.judge import Sender
from dataproxy.ingest.take import take_raw
from dataproxy.retain.erase import erase, plan_erasure
from dataproxy.retain.holds import add_hold
from dataproxy.retain.retention import set_retention
from dataproxy.retain.targets import resolve
from dataproxy.store.access import record_access
from dataproxy.store.access_pages import read_log
from dataproxy.store.consents import add_consent
from dataproxy.store.reading import find_event, list_events
from dataproxy.store.schema import consent, event, legal_hold, retention_policy, reward
from dataproxy.store.search import SearchQuery, search_events
from tests.dataproxy.exchanges import MAC_SECRET, exchange, user, write
from tests.dataproxy.ledger.lived_in import READER, verified
from tests.dataproxy.proxy import Clock, Proxy

ODD = ("a\0b", "\0", "\U0010fffe0", "\U0010fffe\0\U0010fffe\U0010fffe", "tab\t\\N 汉😀")


@pytest.mark.parametrize("odd", ODD)
async def test_an_exchange_is_stored_found_and_proven(proxy: Proxy, odd: str) -> None:
    asked, got = exchange(
        [user(f"say {odd}")], f"{odd}!", prompt=[1, 2], session=odd, user=odd, headers={"x-note": odd}, metadata={"note": odd}
    )
    asked = msgspec.structs.replace(asked, model=odd, agent=f"agent {odd}", path=f"/v1/chat/completions?{odd}")
    proxy.consent(agent=f"agent {odd}")
    journal = proxy.journal()
    await write(journal, (asked, msgspec.structs.replace(got, worker=odd)))
    journal.close()
    assert proxy.drain() == 1
    with proxy.services.database.read() as connection:
        found = find_event(connection, "acme", asked.event_id)
        assert found is not None
        assert list_events(connection, "acme", 5, 0, found.session_id, "model_call")[0][1] == found
        mine = SearchQuery("acme", agent=f"agent {odd}", sessions=(found.session_id,))
        for query in (SearchQuery("acme", odd, "model_call"), mine):
            assert [one.event_id for one in search_events(connection, query, 0, 5)[0]] == [asked.event_id]
        target = resolve(connection, "acme", "session", odd, proxy.services.digests("acme"))
        assert (target.name, resolve(connection, "acme", "subject", odd, proxy.services.digests("acme")).scope) == (
            found.session_id,
            "subject",
        )
    assert (found.agent, found.m["model"], found.m["worker"], found.m["headers"]) == (f"agent {odd}", odd, odd, {"x-note": odd})
    assert found.o["messages"] == [user(f"say {odd}")] and found.a["messages"][0]["content"] == f"{odd}!"
    assert proxy.rows(select(event.c.model).where(event.c.event_id == asked.event_id)) == [(odd,)]
    assert verified(proxy).ok


@pytest.mark.slow
@pytest.mark.parametrize("odd", ODD)
async def test_rewards_words_of_people_and_reads_are_stored_found_and_proven(proxy: Proxy, clock: Clock, odd: str) -> None:
    pair = exchange([user("q")], session="plain", prompt=[1, 2])
    journal = proxy.journal()
    await write(journal, pair)
    journal.close()
    proxy.drain()
    desk = Desk("acme", MAC_SECRET, proxy.services.digests("acme"))
    given = Feedback(pair[0].completion_id, 1.0, label=odd, correction=odd, explanation=odd, idempotency_key=odd)
    with proxy.services.database.write() as connection:
        first = give_feedback(connection, desk, given, "key-1", clock())
        assert give_feedback(connection, desk, given, "key-1", clock()) == first
        add_consent(connection, Consent("acme", True, True, odd, odd), "key-0")
        set_retention(connection, Retention("acme", odd, 3, odd, odd), "key-0", clock())
        record_access(connection, READER, "acme", "trajectory", odd, clock(), odd)
        hold = add_hold(connection, LegalHold("acme", "agent", odd, odd), "key-0", clock())
    (row,) = proxy.rows(select(reward.c.label, reward.c.correction, reward.c.explanation))
    assert set(row) == {odd}
    assert (odd, odd) in proxy.rows(select(consent.c.agent, consent.c.reason))
    assert proxy.rows(select(retention_policy.c["class"], retention_policy.c.agent)) == [(odd, odd)]
    assert proxy.rows(select(legal_hold.c.target).where(legal_hold.c.hold_id == hold.hold_id)) == [(odd,)]
    with proxy.services.database.read() as connection:
        (read,) = read_log(connection, "acme", None, [odd], "", 9).rows
    assert (read.target, read.purpose) == (odd, odd)
    assert verified(proxy).ok
    with proxy.services.database.read() as connection:
        plan = plan_erasure(connection, resolve(connection, "acme", "session", "plain", proxy.services.digests("acme")))
    with proxy.services.database.write() as connection:
        erase(connection, plan, odd, "key-0", clock())
    report = verified(proxy)
    assert report.ok and report.erased == 2


@pytest.mark.parametrize("odd", ODD)
def test_a_posted_event_is_stored_as_it_was_or_refused_with_its_field(proxy: Proxy, odd: str) -> None:
    body = {"event_id": "e1", "kind": "retrieval", "started_at": 1, "ended_at": 2, "o": {odd: odd}, "m": {"a": [odd]}}
    sender = Sender("acme", "triage", "key-1")
    (taken,) = take_raw(proxy.services, sender, [msgspec.Raw(msgspec.json.encode(body))])
    assert taken.status == "stored", taken
    with proxy.services.database.read() as connection:
        found = find_event(connection, "acme", "e1")
    assert found is not None and found.o == {odd: odd} and found.m["a"] == [odd]
    (refused,) = take_raw(proxy.services, sender, [msgspec.Raw(msgspec.json.encode(body | {"event_id": "e2\0"}))])
    assert (refused.status, refused.field) == ("refused", "event_id")
    assert verified(proxy).ok


def test_half_a_surrogate_pair_never_gets_as_far(proxy: Proxy) -> None:
    raw = rb'{"event_id": "e1", "kind": "retrieval", "started_at": 1, "ended_at": 2, "o": {"a": "\ud800"}}'
    (taken,) = take_raw(proxy.services, Sender("acme", "triage", "key-1"), [msgspec.Raw(raw)])
    assert taken.status == "refused"

"""Consent of one session: narrower than its agent's, at admission and again when a trainer asks; of nobody that is not known."""

import pytest

from dataproxy.client.types import Consent, Feedback, LeaseRequest
from dataproxy.errors import NotFound
from dataproxy.feedback import Desk, give_feedback
from dataproxy.lease.leases import grant_lease
from dataproxy.store.consents import ConsentBook, add_consent
from dataproxy.store.parties import require_known
from dataproxy.store.schema import eligibility
from tests.dataproxy.exchanges import MAC_SECRET, exchange, user, write
from tests.dataproxy.proxy import Clock, Proxy


def test_the_narrowest_and_latest_word_holds() -> None:
    book = ConsentBook(
        [
            Consent("acme", True, True, "x", session_id="s1", agent="a"),
            Consent("acme", True, False, "x"),
            Consent("acme", True, True, "x", agent="a"),
            Consent("acme", True, False, "x", agent="a", session_id="s2"),
        ]
    )
    asked = [("a", "s1"), ("a", "s2"), ("a", ""), ("b", "s1"), ("b", "")]
    assert [book.may_train("acme", *one) for one in asked] == [True, False, True, False, False]
    assert not book.may_record("other", "a") and not book.may_train("other", "a", "s1")


def test_what_holds_now_is_one_row_a_scope_that_says_what_follows_and_what_it_beats() -> None:
    book = ConsentBook(
        [
            Consent("acme", True, True, "x"),
            Consent("acme", True, False, "x", agent="a"),
            Consent("acme", True, False, "x"),
            Consent("acme", True, True, "x", agent="a", session_id="s1"),
            Consent("acme", True, True, "x", agent="b", session_id="s2"),
            Consent("acme", False, True, "x", agent="c"),
            Consent("acme", True, True, "x", agent="internal:judge"),
            Consent("other", True, True, "x", agent="a"),
        ]
    )
    assert [(h.word.tenant, h.word.agent, h.word.session_id, h.may_record, h.may_train, h.beats) for h in book.in_force()] == [
        ("acme", "", "", True, False, ""),
        ("acme", "a", "", True, False, "tenant"),
        ("acme", "a", "s1", True, True, "agent"),
        ("acme", "b", "s2", True, True, "tenant"),
        ("acme", "c", "", False, False, "tenant"),
        ("acme", "internal:judge", "", True, False, "tenant"),
        ("other", "a", "", True, True, ""),
    ]


async def test_a_session_without_consent_is_recorded_and_not_trained(proxy: Proxy, clock: Clock) -> None:
    withdrawn = Consent("acme", True, False, "asked for it", "triage", session_id="s1")
    with proxy.services.database.write() as connection:
        add_consent(connection, withdrawn, "key-1")
    journal = proxy.journal()
    await write(journal, exchange([user("a")], prompt=[1, 2], session="s1"), exchange([user("b")], prompt=[3, 4], session="s2"))
    journal.close()
    proxy.drain()
    assert sorted(row.reason for row in proxy.rows(eligibility.select())) == ["eligible", "no_consent"]


async def test_a_session_whose_consent_ends_later_is_not_lent(proxy: Proxy, clock: Clock) -> None:
    journal = proxy.journal()
    asked, got = exchange([user("a")], prompt=[1, 2], session="s1")
    await write(journal, (asked, got))
    journal.close()
    proxy.drain()
    desk = Desk("acme", MAC_SECRET, proxy.services.digests("acme"))
    with proxy.services.database.write() as connection:
        give_feedback(connection, desk, Feedback(asked.completion_id, 1.0), "key-1", clock())
    clock.advance(60)
    terms = LeaseRequest(8, 60.0, "v000000", 4, 1)
    with proxy.services.database.write() as connection:
        add_consent(connection, Consent("acme", True, False, "asked", "triage", clock(), "s1"), "key-1")
        lease = grant_lease(connection, terms, "", "key-2", None, clock(), 2.0)
    assert lease.samples == [] and lease.skipped == {"no_consent": 1}


def test_who_is_not_known_is_refused_with_who_is(proxy: Proxy) -> None:
    proxy.key("agent")
    with proxy.services.database.read() as connection:
        require_known(connection, "acme", "triage")
        with pytest.raises(NotFound, match="no tenant is called 'acmme'; did you mean acme"):
            require_known(connection, "acmme")
        with pytest.raises(NotFound, match="no agent of tenant acme is called 'zzz'; there are triage"):
            require_known(connection, "acme", "zzz")

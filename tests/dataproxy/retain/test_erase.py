"""Erasure: nothing of it is left in any byte, all else is, the log still verifies, and the answer says who learned from it."""

from pathlib import Path

import pytest
from sqlalchemy import select, text, update
from sqlalchemy.exc import DBAPIError

from dataproxy.client.review_types import LegalHold
from dataproxy.client.types import Feedback
from dataproxy.errors import NotFound, Refused
from dataproxy.feedback import Desk, give_feedback
from dataproxy.redact.at_rest import search_at_rest
from dataproxy.retain.erase import foresee, plan_erasure
from dataproxy.retain.holds import add_hold, list_holds, release_hold
from dataproxy.retain.targets import resolve
from dataproxy.store.reading import find_event, list_events
from dataproxy.store.schema import content, erasure, event, log_salt, reward, token_segment, tombstone, trajectory
from tests.dataproxy.exchanges import MAC_SECRET, exchange, said, user, write
from tests.dataproxy.ledger.lived_in import live, verified
from tests.dataproxy.proxy import Clock, Proxy
from tests.dataproxy.retain.erasing import erased

PLANTED = "the violet umbrella of Zanzibar"
SHARED = {"role": "system", "content": "be brief and never shout"}


async def two_people(proxy: Proxy) -> str:
    """Ann speaks of something twice, Bob of something else under the same system prompt; gives Ann's first answer's id."""
    journal = proxy.journal()
    opening = [SHARED, user(f"I lost {PLANTED}")]
    first = exchange(opening, f"so {PLANTED} is lost", prompt=[1, 2, 3], session="ann-1", user="ann@example.org")
    more = [*opening, said(f"so {PLANTED} is lost"), user("yes")]
    second = exchange(more, "sorry", prompt=[1, 2, 3, 7, 8, 9, 4], session="ann-1", user="ann@example.org")
    third = exchange([SHARED, user("hello")], "hello Bob", prompt=[1, 5], session="bob-1", user="bob@example.org")
    await write(journal, first, second, third)
    journal.close()
    proxy.drain()
    desk = Desk("acme", MAC_SECRET, proxy.services.digests("acme"))
    with proxy.services.database.write() as connection:
        item = Feedback(first[0].completion_id, 0.5, explanation=f"never found {PLANTED}")
        give_feedback(connection, desk, item, "key-1", proxy.clock())
    return first[0].event_id


_SCOPES = [("subject", "ann@example.org")]
_MORE = [pytest.param("session", "ann-1", marks=pytest.mark.slow), pytest.param("trajectory", None, marks=pytest.mark.slow)]


@pytest.mark.slow
@pytest.mark.parametrize(("scope", "name"), [*_SCOPES, *_MORE])
async def test_nothing_of_it_is_left_in_any_byte_and_the_log_verifies(
    proxy: Proxy, tmp_path: Path, store_kind: str, scope: str, name: str | None
) -> None:
    event_id = await two_people(proxy)
    before = search_at_rest(proxy.data_dir, None, [PLANTED], None)
    assert bool(before.found) == (store_kind == "sqlite") and before.planted_found  # PostgreSQL's files: test_postgres_purge
    name = name or proxy.rows(select(event.c.trajectory_id).where(event.c.event_id == event_id))[0][0]
    done = erased(proxy, scope, name)
    assert (done.events, done.token_segments, done.rewards_blanked, len(done.trajectories)) == (2, 2, 1, 1)
    assert done.contents_kept == 1 and done.contents_erased == 4
    after = search_at_rest(proxy.data_dir, None, [PLANTED], None)
    assert after.planted_found and not after.found, after.found
    report = verified(proxy)
    assert report.ok, report.problems
    assert report.erased == 3 == proxy.count(tombstone)


async def test_what_belongs_to_others_is_as_it_was(proxy: Proxy) -> None:
    event_id = await two_people(proxy)
    erased(proxy, "subject", "ann@example.org")
    with proxy.services.database.read() as connection:
        left = [item for _, item in list_events(connection, "acme", 50, 0, "bob-1", "model_call")]
        gone = find_event(connection, "acme", event_id)
    assert [item.o["messages"] for item in left] == [[SHARED, user("hello")]] and left[0].subject
    assert gone is not None and gone.m == {"erased": True} and not gone.o and gone.subject == ""
    assert [row.value for row in proxy.rows(select(reward))] == [0.5]
    assert {row.event_id for row in proxy.rows(select(token_segment))} == {left[0].event_id}
    assert [row.num_eligible for row in proxy.rows(select(trajectory).where(trajectory.c.session_id == "ann-1"))] == [0]


async def test_a_text_kept_for_others_goes_with_the_last_of_them(proxy: Proxy, tmp_path: Path) -> None:
    await two_people(proxy)
    erased(proxy, "subject", "ann@example.org")
    last = erased(proxy, "subject", "bob@example.org")
    assert (last.contents_kept, proxy.count(content)) == (0, 0)
    await two_people(proxy)
    erased(proxy, "session", "ann-1")
    report = verified(proxy)
    assert report.ok, report.problems


async def test_it_names_the_versions_that_learned_from_it_and_is_on_record(proxy: Proxy, clock: Clock) -> None:
    await live(proxy, clock)
    trained = proxy.rows(text("SELECT trajectory_id FROM training_use"))[0][0]  # type: ignore[arg-type]
    done = erased(proxy, "trajectory", trained)
    assert done.trained_versions == ["v000001"]
    assert [(row.scope, row.target, row.reason, row.key_id) for row in proxy.rows(select(erasure))] == [
        ("trajectory", trained, "asked for it", "key-9")
    ]
    assert len(proxy.rows(select(event).where(event.c.kind == "erasure"))) == 1


async def test_a_dry_run_says_the_same_and_changes_nothing(proxy: Proxy) -> None:
    await two_people(proxy)
    services = proxy.services
    before = proxy.count(event), proxy.count(log_salt)
    with services.database.read() as connection:
        plan = plan_erasure(connection, resolve(connection, "acme", "session", "ann-1", services.digests("acme")))
        foreseen = foresee(connection, plan, "asked for it")
    assert (proxy.count(event), proxy.count(log_salt)) == before
    done = erased(proxy, "session", "ann-1")
    assert foreseen.dry_run and (foreseen.events, foreseen.contents_erased, foreseen.contents_kept) == (
        done.events,
        done.contents_erased,
        done.contents_kept,
    )


async def test_a_legal_hold_beats_it_until_it_is_released(proxy: Proxy, tmp_path: Path) -> None:
    await two_people(proxy)
    with proxy.services.database.write() as connection:
        hold = add_hold(connection, LegalHold("acme", "session", "ann-1", "case 7"), "key-9", 1)
    with pytest.raises(Refused, match=rf"{hold.hold_id} on session ann-1: case 7"):
        erased(proxy, "subject", "ann@example.org")
    with proxy.services.database.write() as connection:
        release_hold(connection, "acme", hold.hold_id, "closed", "key-9", 2)
        assert list_holds(connection, "acme") == []
        assert [one.released_us for one in list_holds(connection, "acme", released=True)] == [2]
    assert erased(proxy, "subject", "ann@example.org").events == 2
    assert verified(proxy).ok


async def test_who_is_not_there_is_not_found_and_what_is_erased_is_refused(proxy: Proxy) -> None:
    await two_people(proxy)
    with pytest.raises(NotFound):
        erased(proxy, "subject", "carol@example.org")
    with pytest.raises(NotFound):
        erased(proxy, "session", "ann-1", tenant="other")
    erased(proxy, "session", "ann-1")
    with pytest.raises(Refused, match="erased before"):
        erased(proxy, "session", "ann-1")


async def test_the_database_refuses_everybody_else(proxy: Proxy) -> None:
    event_id = await two_people(proxy)
    for values in ({"body": b""}, {"subject": ""}, {"kind": "access"}):
        with pytest.raises(DBAPIError, match=r"append-only|permission denied"), proxy.services.database.write() as connection:
            connection.execute(update(event).where(event.c.event_id == event_id).values(values))
    erased(proxy, "session", "ann-1")
    for values in ({"body": b"{}"}, {"subject": "somebody"}, {"kind": "access"}):
        with pytest.raises(DBAPIError, match=r"append-only|permission denied"), proxy.services.database.write() as connection:
            connection.execute(update(event).where(event.c.event_id == event_id).values(values))

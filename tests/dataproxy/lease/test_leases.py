"""Leases under a clock that the test moves: deadlines, reuse, staleness, consent, and what is said about the rest."""

from typing import Any

import msgspec
import numpy as np
import pytest
from sqlalchemy import select

from atdp.samples import Lease
from dataproxy.client.review_types import LegalHold
from dataproxy.client.types import Feedback, LeaseAck, LeaseRequest
from dataproxy.errors import NotFound, Refused
from dataproxy.feedback import Desk, give_feedback
from dataproxy.lease.candidates import count_left_out, terms_of
from dataproxy.lease.leases import ack_lease, grant_lease, renew_lease
from dataproxy.lease.windows import Now, place_of
from dataproxy.retain.holds import add_hold, release_hold
from dataproxy.store.access_pages import lendings, named
from dataproxy.store.reading import find_event
from dataproxy.store.schema import event, lease_item, training_use
from dataproxy.store.scope import EVERYBODY, Scope
from tests.dataproxy.exchanges import MAC_SECRET, SAMPLING, exchange, record, said, user, write
from tests.dataproxy.proxy import Proxy


async def stored(proxy: Proxy, *pairs: Any) -> list[str]:
    """Store exchanges that just ended; gives their event ids."""
    journal = proxy.journal()
    await write(journal, *pairs)
    journal.close()
    proxy.drain()
    return [pair[0].event_id for pair in pairs]


def call(proxy: Proxy, text: str, **changes: Any) -> Any:
    return exchange([user(text)], **({"prompt": [1, 2], "started_us": proxy.clock(), "ended_us": proxy.clock()} | changes))


def reward(proxy: Proxy, target: str, value: float = 1.0, tenant: str = "acme", **more: Any) -> str:
    with proxy.services.database.write() as connection:
        desk = Desk(tenant, MAC_SECRET, proxy.services.digests(tenant))
        return give_feedback(connection, desk, Feedback(target, value, **more), "key-1", proxy.clock()).reward_id


def lease(proxy: Proxy, maximum: int = 10, tenant: str | None = None, **changes: Any) -> Lease:
    asked = {"max_trajectories": maximum, "ttl_s": 60, "version_now": "v000000", "max_staleness": 1, "max_reuse": 1}
    request = LeaseRequest(**(asked | changes))
    with proxy.services.database.write() as connection:
        return grant_lease(connection, request, "", "key-t", tenant, proxy.clock(), settle_s=2)


def ack(proxy: Proxy, held: Lease, version: str = "v000001", holder: str = "", **changes: Any) -> None:
    trained = [sample.trajectory_id for sample in held.samples]
    item = LeaseAck(**({"outcome": "trained", "version": version, "trained": trained} | changes))
    with proxy.services.database.write() as connection:
        ack_lease(connection, holder, held.lease_id, item, proxy.clock())


async def test_a_trajectory_is_lent_once_it_is_rewarded_and_settled_and_never_before(proxy: Proxy) -> None:
    (event_id,) = await stored(proxy, call(proxy, "q"))
    proxy.clock.advance(10)
    assert lease(proxy).samples == []
    reward(proxy, event_id, 0.25)
    (sample,) = lease(proxy).samples
    assert (sample.reward, sample.temperature, sample.agent) == (0.25, 1.0, "triage")
    (row,) = sample.sequences
    assert row.ids().tolist() == [1, 2, 7, 8, 9] and row.mask().tolist() == [False, False, True, True, True]
    assert row.turns[0].reward == 0.25 and np.allclose(row.behaviour_logprobs()[2:], -0.5)


async def test_a_rewarded_trajectory_waits_until_no_call_has_come_for_a_while(proxy: Proxy) -> None:
    (event_id,) = await stored(proxy, call(proxy, "q"))
    reward(proxy, event_id)
    proxy.clock.advance(1.9)
    assert lease(proxy).samples == []
    proxy.clock.advance(0.1)
    assert len(lease(proxy).samples) == 1


async def test_a_reward_on_any_turn_rewards_the_conversation(proxy: Proxy) -> None:
    first = call(proxy, "a", answer="b")
    second = exchange([user("a"), said("b"), user("c")], prompt=[50], started_us=proxy.clock(), ended_us=proxy.clock())
    first_id, second_id = await stored(proxy, first, second)
    proxy.clock.advance(3)
    reward(proxy, second_id, 1.0)
    (sample,) = lease(proxy).samples
    assert sample.reward == 1.0 and len(sample.sequences) == 2
    assert {turn.event_id: turn.reward for row in sample.sequences for turn in row.turns} == {first_id: None, second_id: 1.0}


async def test_what_is_held_is_not_lent_again_until_its_deadline(proxy: Proxy) -> None:
    (event_id,) = await stored(proxy, call(proxy, "q"))
    reward(proxy, event_id)
    proxy.clock.advance(3)
    held = lease(proxy)
    assert held.deadline_us == proxy.clock() + 60_000_000
    again = lease(proxy)
    assert again.samples == [] and again.skipped == {"leased": 1}
    proxy.clock.advance(60)
    assert lease(proxy).samples == []
    proxy.clock.advance(0.001)
    assert [sample.trajectory_id for sample in lease(proxy).samples] == [held.samples[0].trajectory_id]


async def test_renewing_moves_the_deadline_and_an_ended_lease_cannot_be_renewed(proxy: Proxy) -> None:
    (event_id,) = await stored(proxy, call(proxy, "q"))
    reward(proxy, event_id)
    proxy.clock.advance(3)
    held = lease(proxy)
    proxy.clock.advance(59)
    with proxy.services.database.write() as connection:
        assert renew_lease(connection, "", held.lease_id, 60, proxy.clock()) == proxy.clock() + 60_000_000
    proxy.clock.advance(59)
    assert lease(proxy).samples == []
    proxy.clock.advance(2)
    with pytest.raises(Refused, match="ended"), proxy.services.database.write() as connection:
        renew_lease(connection, "", held.lease_id, 60, proxy.clock())
    with pytest.raises(NotFound), proxy.services.database.write() as connection:
        renew_lease(connection, "acme", held.lease_id, 60, proxy.clock())


async def test_trained_is_on_record_and_counts_against_reuse(proxy: Proxy) -> None:
    (event_id,) = await stored(proxy, call(proxy, "q"))
    reward(proxy, event_id)
    proxy.clock.advance(3)
    held = lease(proxy, max_reuse=2)
    ack(proxy, held)
    ack(proxy, held)
    used = proxy.rows(select(training_use.c.trajectory_id, training_use.c.version, training_use.c.lease_id))
    assert used == [(held.samples[0].trajectory_id, "v000001", held.lease_id)]
    assert lease(proxy, max_reuse=1).skipped == {"reused": 1}
    second = lease(proxy, max_reuse=2)
    ack(proxy, second, "v000002")
    assert len(second.samples) == 1 and lease(proxy, max_reuse=2).skipped == {"reused": 1}


async def test_a_returned_lease_frees_everything_and_keeps_the_reasons(proxy: Proxy) -> None:
    ids = await stored(proxy, call(proxy, "q1"), call(proxy, "q2"))
    for event_id in ids:
        reward(proxy, event_id)
    proxy.clock.advance(3)
    held = lease(proxy)
    first, second = (sample.trajectory_id for sample in held.samples)
    ack(proxy, held, trained=[first], skipped={second: "stale_at_consumption"})
    outcomes = dict(tuple(row) for row in proxy.rows(select(lease_item.c.trajectory_id, lease_item.c.outcome)))
    assert outcomes == {first: "trained", second: "stale_at_consumption"}
    held = lease(proxy)
    assert [sample.trajectory_id for sample in held.samples] == [second]
    ack(proxy, held, version=None, outcome="returned", trained=[])
    assert len(lease(proxy).samples) == 1


async def test_an_ack_after_the_deadline_still_says_what_was_trained(proxy: Proxy) -> None:
    (event_id,) = await stored(proxy, call(proxy, "q"))
    reward(proxy, event_id)
    proxy.clock.advance(3)
    held = lease(proxy)
    proxy.clock.advance(100)
    assert len(lease(proxy).samples) == 1
    ack(proxy, held)
    assert proxy.count(training_use) == 1


async def test_an_ack_that_cannot_be_true_is_refused(proxy: Proxy) -> None:
    (event_id,) = await stored(proxy, call(proxy, "q"))
    reward(proxy, event_id)
    proxy.clock.advance(3)
    held = lease(proxy)
    with pytest.raises(Refused, match="does not hold"):
        ack(proxy, held, trained=["tr-else"])
    with pytest.raises(Refused, match="names the version"):
        ack(proxy, held, version=None)
    with pytest.raises(NotFound):
        ack(proxy, held, holder="acme")
    assert proxy.count(training_use) == 0 and lease(proxy).skipped == {"leased": 1}


async def test_tokens_of_versions_above_the_head_were_rolled_back_and_are_left_out(proxy: Proxy) -> None:
    ids = await stored(proxy, *(call(proxy, f"q{v}", engine_record=record("r", [1], [[5]], version=f"v{v:06d}")) for v in (3, 7)))
    for event_id in ids:
        reward(proxy, event_id)
    proxy.clock.advance(3)
    held = lease(proxy, version_now="v000003", max_staleness=2)
    assert [sample.sequences[0].version_indices().tolist() for sample in held.samples] == [[-1, 3]]
    assert held.skipped == {"rolled_back": 1}


async def test_tokens_of_versions_that_are_too_old_are_left_out(proxy: Proxy) -> None:
    ids = await stored(proxy, *(call(proxy, f"q{v}", engine_record=record("r", [1], [[5]], version=f"v{v:06d}")) for v in range(4)))
    for event_id in ids:
        reward(proxy, event_id)
    proxy.clock.advance(3)
    held = lease(proxy, version_now="v000004", max_staleness=2)
    assert [sample.sequences[0].version_indices().tolist() for sample in held.samples] == [[-1, 3], [-1, 2]]
    assert held.skipped == {"stale": 2}


async def test_an_old_turn_of_a_fresh_conversation_is_context_only(proxy: Proxy) -> None:
    first = call(proxy, "a", answer="b", engine_record=record("r", [1], [[2]], version="v000000"))
    then = [user("a"), said("b"), user("c")]
    newer = record("r", [1, 2, 3], [[4]], version="v000005")
    second = exchange(then, engine_record=newer, started_us=proxy.clock(), ended_us=proxy.clock())
    _, event_id = await stored(proxy, first, second)
    reward(proxy, event_id)
    proxy.clock.advance(3)
    (sample,) = lease(proxy, version_now="v000005", max_staleness=1).samples
    assert sample.sequences[0].ids().tolist() == [1, 2, 3, 4] and sample.sequences[0].mask().tolist() == [False, False, False, True]


async def test_too_few_lend_nothing_and_the_maximum_holds(proxy: Proxy) -> None:
    ids = await stored(proxy, *(call(proxy, f"q{i}") for i in range(5)))
    for event_id in ids:
        reward(proxy, event_id)
    proxy.clock.advance(3)
    assert lease(proxy, min_trajectories=6).samples == []
    assert len(lease(proxy, maximum=3, min_trajectories=3).samples) == 3
    assert len(lease(proxy, maximum=3).samples) == 2


async def test_withdrawn_consent_stops_what_was_admitted_before(proxy: Proxy) -> None:
    (event_id,) = await stored(proxy, call(proxy, "q"))
    reward(proxy, event_id)
    proxy.clock.advance(3)
    proxy.consent(training=False)
    held = lease(proxy)
    assert held.samples == [] and held.skipped == {"no_consent": 1}


async def test_tenants_and_agents_are_lent_apart(proxy: Proxy) -> None:
    proxy.consent("other")
    mine, agents, others = await stored(proxy, call(proxy, "q"), call(proxy, "q", agent="b"), call(proxy, "q", tenant="other"))
    reward(proxy, mine)
    reward(proxy, agents)
    reward(proxy, others, tenant="other")
    proxy.clock.advance(3)
    assert [sample.tenant for sample in lease(proxy, tenant="other").samples] == ["other"]
    assert [sample.agent for sample in lease(proxy, tenant="acme", agent="b").samples] == ["b"]
    assert [(sample.tenant, sample.agent) for sample in lease(proxy).samples] == [("acme", "triage")]


async def test_choices_of_one_call_are_samples_each(proxy: Proxy) -> None:
    answers = [said("x"), said("y")]
    (event_id,) = await stored(proxy, call(proxy, "q", outputs=[[5], [6, 7]], answers=answers))
    reward(proxy, event_id)
    proxy.clock.advance(3)
    (sample,) = lease(proxy).samples
    assert [row.ids().tolist() for row in sample.sequences] == [[1, 2, 5], [1, 2, 6, 7]]


async def test_a_sample_has_one_temperature(proxy: Proxy) -> None:
    first = call(proxy, "a", answer="b")
    warmer = record("r", [9], [[4]], sampling=SAMPLING | {"temperature": 0.5})
    second = exchange([user("a"), said("b"), user("c")], engine_record=warmer, started_us=proxy.clock(), ended_us=proxy.clock())
    _, event_id = await stored(proxy, first, second)
    reward(proxy, event_id)
    proxy.clock.advance(3)
    (sample,) = lease(proxy).samples
    assert sample.temperature == 1.0 and len(sample.sequences) == 1


async def test_a_call_after_the_lease_opens_another_trajectory_that_trains_only_what_is_new(proxy: Proxy) -> None:
    (first_id,) = await stored(proxy, call(proxy, "a", answer="b"))
    reward(proxy, first_id)
    proxy.clock.advance(3)
    held = lease(proxy)
    ack(proxy, held)
    later = exchange([user("a"), said("b"), user("c")], prompt=[1, 2, 7, 8, 9, 4], started_us=proxy.clock(), ended_us=proxy.clock())
    (second_id,) = await stored(proxy, later)
    reward(proxy, second_id, 0.5)
    proxy.clock.advance(3)
    (sample,) = lease(proxy).samples
    assert sample.trajectory_id != held.samples[0].trajectory_id and sample.session_id == held.samples[0].session_id
    assert [turn.event_id for turn in sample.sequences[0].turns] == [second_id] and sample.reward == 0.5
    assert proxy.rows(select(event.c.parent_id).where(event.c.event_id == second_id)) == [(first_id,)]


async def test_a_reward_after_training_counts_at_the_next_use_and_rewrites_nothing(proxy: Proxy) -> None:
    (event_id,) = await stored(proxy, call(proxy, "q"))
    reward(proxy, event_id, 1.0)
    proxy.clock.advance(3)
    ack(proxy, lease(proxy))
    proxy.clock.advance(1)
    reward(proxy, event_id, -1.0)
    (sample,) = lease(proxy, max_reuse=2).samples
    assert sample.reward == -1.0 and [r.value for r in sample.rewards] == [1.0, -1.0]


async def test_events_say_their_lane_and_a_trajectory_that_both_lanes_served_is_left_out(proxy: Proxy) -> None:
    def in_lane(session: str, lane: str) -> Any:
        asked, got = call(proxy, "q", session=session)
        return asked, msgspec.structs.replace(got, lane=lane)

    calls = (in_lane("one", "stable"), in_lane("both", "stable"), in_lane("both", "canary"), in_lane("other", "canary"))
    names = await stored(proxy, *calls)
    with proxy.services.database.read() as connection:
        lanes = [found.lane for name in names if (found := find_event(connection, "acme", name))]
    assert lanes == ["stable", "stable", "canary", "canary"]
    for name in names:
        reward(proxy, name)
    proxy.clock.advance(10)
    held = lease(proxy)
    assert {sample.session_id for sample in held.samples} == {"one", "other"} and held.skipped == {"mixed_lanes": 1}


@pytest.mark.parametrize("scope", ["tenant", "agent", "session", "trajectory", "subject"])
async def test_what_is_on_legal_hold_is_not_lent_until_it_is_released(proxy: Proxy, scope: str) -> None:
    proxy.consent("other")
    named = {"session": "s1", "user": "ann"}
    elsewhere = {"agent": "billing", "session": "s2", "user": "bob", "tenant": "other" if scope == "tenant" else "acme"}
    for name in await stored(proxy, call(proxy, "held", **named), call(proxy, "free", **elsewhere)):
        (row,) = proxy.rows(select(event).where(event.c.event_id == name))
        reward(proxy, name, tenant=row.tenant)
    (on,) = proxy.rows(select(event).where(event.c.kind == "model_call", event.c.agent == "triage"))
    targets = {"tenant": "", "agent": on.agent, "session": on.session_id, "trajectory": on.trajectory_id, "subject": on.subject}
    with proxy.services.database.write() as connection:
        hold = add_hold(connection, LegalHold("acme", scope, targets[scope], "case 7"), "key-9", proxy.clock())
    proxy.clock.advance(3)
    first = lease(proxy)
    assert [sample.agent for sample in first.samples] == ["billing"] and first.skipped == {"legal_hold": 1}
    now = Now(proxy.clock(), 2)
    with proxy.services.database.read() as connection:
        assert place_of(connection, now, "acme", on.trajectory_id) == "legal_hold"
    with proxy.services.database.write() as connection:
        release_hold(connection, "acme", hold.hold_id, "closed", "key-9", proxy.clock())
    again = lease(proxy)
    assert [sample.trajectory_id for sample in again.samples] == [on.trajectory_id] and again.skipped == {"leased": 1}


async def test_what_is_left_out_is_counted_among_the_newest(proxy: Proxy) -> None:
    for event_id in await stored(proxy, *(call(proxy, f"q{number}") for number in range(3))):
        reward(proxy, event_id)
    proxy.clock.advance(3)
    terms = terms_of(LeaseRequest(4, 60, "v000009", 1, 1), "acme", 9, proxy.clock(), 2)
    with proxy.services.database.read() as connection:
        assert [count_left_out(connection, terms, most) for most in (2, 9)] == [{"stale": 2}, {"stale": 3}]


async def test_whom_a_trajectory_was_lent_to_is_known_to_its_tenant_whosever_the_lease_is(proxy: Proxy) -> None:
    (event_id,) = await stored(proxy, call(proxy, "q"))
    reward(proxy, event_id)
    proxy.clock.advance(3)
    held = lease(proxy)
    for scope in (Scope("acme"), EVERYBODY):
        with proxy.services.database.read(scope) as connection:
            (one,) = lendings(connection, named(connection, "acme", f"tr-{event_id}", []), 50)
        assert one.lease_id == held.lease_id and one.key_id in ("key-t", "a trainer") and one.at_us > 0

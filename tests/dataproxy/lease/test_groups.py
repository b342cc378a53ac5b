"""Attempts at one task are lent together: when all that were begun or announced are rewarded, or when one has waited enough."""

from typing import Any

import msgspec
import pytest
from sqlalchemy import select

from atdp.samples import Lease
from dataproxy.store.reading import find_event
from dataproxy.store.schema import event, trajectory
from tests.dataproxy.exchanges import exchange, said, user
from tests.dataproxy.lease.test_leases import ack, call, lease, stored
from tests.dataproxy.lease.test_leases import reward as give
from tests.dataproxy.lease.test_windows import places, rule
from tests.dataproxy.proxy import SECRET_WORD, Proxy

WAIT_S = 600


def attempt(proxy: Proxy, text: str, group: str = "task-17", size: int = 0, **changes: Any) -> Any:
    """A call that just ended, of a session that is an attempt of ``group``."""
    asked, got = call(proxy, text, **changes)
    return msgspec.structs.replace(asked, group=group, group_size=size), got


def lent(held: Lease) -> list[str]:
    """Groups of what was lent, in order."""
    return [sample.group for sample in held.samples]


async def test_what_is_of_one_group_waits_for_each_other_and_is_lent_together(proxy: Proxy) -> None:
    alone, *ids = await stored(proxy, call(proxy, "alone"), *(attempt(proxy, f"attempt {n}") for n in range(3)))
    for event_id in ids[:2]:
        give(proxy, event_id)
    proxy.clock.advance(3)
    assert lent(lease(proxy)) == [] and places(proxy) == {"group_waits": 2, "no_reward": 2}
    give(proxy, ids[2], 0.0)
    give(proxy, alone, 0.5)
    assert places(proxy) == {"ready": 4}
    held = lease(proxy, maximum=3)
    assert lent(held) == ["", *["task-17"] * 3], "a group is not torn apart by a limit"
    assert [sample.reward for sample in held.samples] == [0.5, 1.0, 1.0, 0.0]


async def test_as_many_attempts_are_waited_for_as_were_announced(proxy: Proxy) -> None:
    (first,) = await stored(proxy, attempt(proxy, "attempt 1", size=2))
    give(proxy, first)
    proxy.clock.advance(3)
    assert lent(lease(proxy)) == [] and places(proxy) == {"group_waits": 1}
    (second,) = await stored(proxy, attempt(proxy, "attempt 2"))
    give(proxy, second)
    proxy.clock.advance(1)
    assert lent(lease(proxy)) == [], "the second has not settled"
    proxy.clock.advance(1)
    assert lent(lease(proxy)) == ["task-17"] * 2


@pytest.mark.parametrize("wait_s", [None, 30])
async def test_an_attempt_waits_so_long_after_its_own_last_call_and_takes_what_is_ready_along(
    proxy: Proxy, wait_s: int | None
) -> None:
    (early,) = await stored(proxy, attempt(proxy, "attempt 1", size=4))
    rule(proxy, group_wait_s=wait_s)
    limit = wait_s or WAIT_S
    proxy.clock.advance(limit - 10)
    late, never = await stored(proxy, attempt(proxy, "attempt 2"), attempt(proxy, "attempt 3"))
    give(proxy, early)
    give(proxy, late)
    proxy.clock.advance(9)
    assert lent(lease(proxy)) == [] and places(proxy) == {"group_waits": 2, "no_reward": 1}
    proxy.clock.advance(1)
    held = lease(proxy)
    assert {sample.trajectory_id for sample in held.samples} == {f"tr-{early}", f"tr-{late}"}
    assert f"tr-{never}" not in {sample.trajectory_id for sample in held.samples}


async def test_a_terminal_reward_and_what_may_not_train_are_waited_for_as_a_trajectory_would(proxy: Proxy) -> None:
    broken, open_, done = await stored(
        proxy,
        attempt(proxy, "attempt 1", delivery="disconnected"),
        attempt(proxy, "attempt 2"),
        attempt(proxy, "attempt 3"),
    )
    await stored(proxy, call(proxy, "of another agent", agent="poet"))
    rule(proxy, agent="poet", terminal="tone")
    rule(proxy, terminal="resolved")
    give(proxy, open_, name="tone")  # the last word for the other agent alone
    give(proxy, done, name="resolved")
    proxy.clock.advance(3)
    assert lent(lease(proxy)) == [] and places(proxy) == {"not_eligible": 1, "window_open": 1, "group_waits": 1, "no_reward": 1}
    give(proxy, open_, 0.0, name="resolved")
    assert {sample.trajectory_id for sample in lease(proxy).samples} == {f"tr-{open_}", f"tr-{done}"} and broken


async def test_groups_of_others_and_what_is_in_none_are_not_waited_for(proxy: Proxy) -> None:
    proxy.consent(tenant="other")
    ids = await stored(
        proxy,
        attempt(proxy, "mine"),
        attempt(proxy, "another group's", group="task-18"),
        attempt(proxy, "another agent's", agent="coder"),
        attempt(proxy, "another tenant's", tenant="other"),
        call(proxy, "in no group"),
    )
    give(proxy, ids[0])
    proxy.clock.advance(3)
    assert lent(lease(proxy, tenant="acme")) == ["task-17"]


async def test_what_was_lent_or_trained_alone_holds_nobody_up(proxy: Proxy) -> None:
    (first,) = await stored(proxy, attempt(proxy, "attempt 1"))
    give(proxy, first)
    proxy.clock.advance(3)
    ack(proxy, lease(proxy))
    (second,) = await stored(proxy, attempt(proxy, "attempt 2"))
    give(proxy, second)
    proxy.clock.advance(3)
    assert [sample.trajectory_id for sample in lease(proxy).samples] == [f"tr-{second}"]


async def test_a_group_larger_than_a_lease_is_lent_in_parts(proxy: Proxy) -> None:
    for event_id in await stored(proxy, *(attempt(proxy, f"attempt {n}") for n in range(5)), call(proxy, "alone")):
        give(proxy, event_id)
    proxy.clock.advance(3)
    counts = [len(lease(proxy, maximum=2).samples) for _ in range(4)]
    assert sum(counts) == 6 and counts[-1] == 0 and max(counts) <= 3


async def test_a_group_lies_in_the_envelope_and_holds_for_the_session_that_it_began_with(proxy: Proxy) -> None:
    first = attempt(proxy, "q", size=4, session="s", answer="a")
    second = exchange([user("q"), said("a"), user("r")], prompt=[1, 2, 7], session="s", started_us=proxy.clock())
    other = attempt(proxy, "another task", group="task-18", session="s")
    ids = await stored(proxy, first, second, other)
    with proxy.services.database.read() as connection:
        events = [find_event(connection, "acme", event_id) for event_id in ids]
    assert [one.group for one in events if one] == ["task-17", "", "task-18"]
    assert events[0] is not None and events[0].m["group_size"] == 4
    rows = proxy.rows(
        select(trajectory.c.group_id, trajectory.c.group_size, trajectory.c.num_events).order_by(trajectory.c.group_id)
    )
    assert [tuple(row) for row in rows] == [("task-17", 4, 2), ("task-18", 0, 1)]


async def test_a_name_in_which_something_was_found_becomes_a_keyed_digest_that_keeps_groups_apart(proxy: Proxy) -> None:
    names = [f"{SECRET_WORD}-1", f"{SECRET_WORD}-2", f"{SECRET_WORD}-1"]
    await stored(proxy, *(attempt(proxy, f"attempt {n}", group=name) for n, name in enumerate(names)))
    found = [row.group_id for row in proxy.rows(select(trajectory.c.group_id).order_by(trajectory.c.trajectory_id))]
    assert found[0] == found[2] != found[1] and all(name.startswith("digest-") for name in found)
    assert SECRET_WORD.encode() not in proxy.everything_at_rest() and proxy.count(event) == 3

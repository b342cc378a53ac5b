"""Who may call now: capacity, fairness, bounds of the queue, rates, budgets, and what happens to those who leave."""

import asyncio

import pytest

from gateway.errors import Refused
from router.workers import Health
from tests.gateway.admission.conftest import caller, fleet
from tests.gateway.sse import eventually


def waiting(admission, *callers):
    """A task for each caller, all of them in the queue by the time this returns."""
    return [asyncio.create_task(admission.enter(one, 40, "m")) for one in callers]


async def queued(admission, *callers):
    before = admission.num_waiting
    tasks = waiting(admission, *callers)
    await eventually(lambda: admission.num_waiting == before + len(callers))
    return tasks


async def done(tasks):
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    return [task for task in tasks if task.done()]


def test_without_limits_and_capacity_everybody_enters(make):
    admission = make()
    tickets = [admission.try_enter(caller(), 1, "m") for _ in range(2000)]
    assert all(tickets)
    assert tickets[0].headers() == [] and not tickets[0].counts_tokens


async def test_a_call_beyond_the_workers_capacity_waits_for_one_that_leaves(make):
    admission = make(capacity=2)
    first, second = (admission.try_enter(caller(), 1, "m") for _ in range(2))
    assert first and second and admission.try_enter(caller(), 1, "m") is None
    (task,) = await queued(admission, caller())
    assert not task.done()
    admission.leave(first)
    await task
    assert admission.try_enter(caller(), 1, "m") is None


async def test_a_model_that_is_unknown_or_has_no_worker_is_not_kept_waiting(make):
    admission = make(capacity=1)
    assert admission.try_enter(caller(), 1, "other")
    admission.watch(fleet(1, Health.DOWN))
    assert all(admission.try_enter(caller(), 1, "m") for _ in range(3))


async def test_tenants_take_turns_and_within_a_tenant_its_keys(make):
    admission = make(capacity=1)
    ticket = admission.try_enter(caller(), 1, "m")
    order = ["a1", "a1", "a1", "a2", "b1", "c1", "c1"]
    tasks = await queued(admission, *[caller(key, tenant=key[0]) for key in order])
    served = []
    for _ in order:
        admission.leave(ticket)
        (task,) = await done([task for task in tasks if task not in served])
        served.append(task)
        ticket = task.result()
    assert [order[tasks.index(task)] for task in served] == ["a1", "b1", "c1", "a2", "c1", "a1", "a1"]


async def test_a_key_at_its_concurrency_waits_without_holding_up_the_others(make):
    admission = make(capacity=4)
    narrow = caller("narrow", max_concurrency=1)
    first = admission.try_enter(narrow, 1, "m")
    (blocked,) = await queued(admission, narrow)
    other = await asyncio.wait_for(admission.enter(caller("wide"), 1, "m"), 5)
    assert other and not blocked.done()
    admission.leave(first, 0)
    await blocked


async def test_a_tenants_calls_count_together(make):
    admission = make(capacity=8, tenant_max_concurrency=2)
    assert admission.try_enter(caller("a", "acme"), 1, "m") and admission.try_enter(caller("b", "acme"), 1, "m")
    assert admission.try_enter(caller("c", "acme"), 1, "m") is None
    assert admission.try_enter(caller("d", "other"), 1, "m")


@pytest.mark.parametrize(
    ("bounds", "whose"), [({"max_waiting": 2}, "too many calls wait"), ({"max_waiting_per_key": 2}, "of this key")]
)
async def test_a_full_queue_refuses_with_a_time_to_come_back(make, bounds, whose):
    admission = make(capacity=1, **bounds)
    ticket = admission.try_enter(caller(), 1, "m")
    tasks = await queued(admission, caller(), caller())
    with pytest.raises(Refused, match=whose) as refused:
        await admission.enter(caller(), 1, "m")
    assert (refused.value.status, refused.value.code) == (429, "queue_full")
    assert 1 <= refused.value.retry_after_s <= 30
    admission.leave(ticket)
    await done(tasks)
    assert admission.num_waiting == 1
    tasks[1].cancel()


async def test_one_keys_full_line_leaves_room_for_another(make):
    admission = make(capacity=1, max_waiting_per_key=1)
    admission.try_enter(caller(), 1, "m")
    tasks = await queued(admission, caller("greedy"), caller("modest"))
    for task in tasks:
        task.cancel()


async def test_who_waits_too_long_is_refused_but_not_while_weights_are_swapped(make):
    admission = make(capacity=1, max_wait_s=0.0)
    ticket = admission.try_enter(caller(), 1, "m")
    admission.watch(fleet(1, Health.WAITING))
    admission.sweep()
    (task,) = await queued(admission, caller())
    await asyncio.sleep(0)
    admission.sweep()
    assert not await done([task])
    admission.watch(fleet(1))
    await eventually(lambda: admission.sweep() or task.done())
    with pytest.raises(Refused) as refused:
        await task
    assert (refused.value.status, refused.value.code) == (429, "queue_timeout")
    assert admission.num_waiting == 0
    admission.leave(ticket)
    assert admission.try_enter(caller(), 1, "m")


async def test_the_longest_wait_ends_even_during_a_swap(make):
    admission = make(capacity=1, max_wait_s=0.0, max_swap_wait_s=0.0)
    admission.try_enter(caller(), 1, "m")
    admission.watch(fleet(1, Health.WAITING))
    admission.sweep()
    (task,) = await queued(admission, caller())
    await eventually(lambda: admission.sweep() or task.done())
    with pytest.raises(Refused, match="waited as long"):
        await task


async def test_who_leaves_the_queue_gives_back_its_place_and_its_charge(make):
    admission = make(capacity=1)
    ticket = admission.try_enter(caller(), 1, "m")
    metered = caller("metered", requests_per_minute=1)
    (task,) = await queued(admission, metered)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert admission.num_waiting == 0
    admission.leave(ticket)
    assert admission.try_enter(metered, 1, "m")


async def test_who_leaves_just_when_its_turn_has_come_does_not_keep_the_place(make):
    admission = make(capacity=1)
    ticket = admission.try_enter(caller(), 1, "m")
    first, second = await queued(admission, caller(), caller())
    admission.leave(ticket)  # the place is the first's, which has not run since
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    await asyncio.wait_for(second, 5)


def test_requests_a_minute(make, clock):
    admission, key = make(), caller(requests_per_minute=2)
    for _ in range(2):
        admission.leave(admission.try_enter(key, 1, "m"), 0)
    with pytest.raises(Refused, match="2 requests a minute") as refused:
        admission.try_enter(key, 1, "m")
    assert (refused.value.status, refused.value.code, refused.value.retry_after_s) == (429, "rate_limit_exceeded", 30)
    clock.now += 30
    assert admission.try_enter(key, 1, "m")
    with pytest.raises(Refused):
        admission.try_enter(key, 1, "m")


def test_tokens_a_minute_are_estimated_first_and_corrected_by_what_was_used(make, clock):
    admission, key = make(), caller(tokens_per_minute=100)
    ticket = admission.try_enter(key, 240, "m")
    assert dict(ticket.headers()) == {
        b"x-ratelimit-limit-tokens": b"100",
        b"x-ratelimit-remaining-tokens": b"40",
        b"x-ratelimit-reset-tokens": b"36.000s",
    }
    admission.leave(ticket, 130)
    with pytest.raises(Refused, match="100 tokens a minute") as refused:
        admission.try_enter(key, 40, "m")
    assert refused.value.retry_after_s == 24  # 30 in debt, 10 wanted, 100 a minute
    clock.now += 24
    assert admission.try_enter(key, 40, "m")


def test_a_call_larger_than_a_minutes_tokens_needs_a_full_bucket_not_a_fuller_one(make, clock):
    admission, key = make(), caller(tokens_per_minute=100)
    admission.leave(admission.try_enter(key, 4000, "m"), None)
    with pytest.raises(Refused):
        admission.try_enter(key, 4000, "m")
    clock.now += 600
    assert admission.try_enter(key, 4000, "m")


def test_a_budget_counts_what_is_confirmed_and_what_was_seen_since_once_each(make):
    admission = make()
    admission.leave(admission.try_enter(caller(budget_tokens=100, used_tokens=30), 4, "m"), 50)
    assert admission.try_enter(caller(budget_tokens=100, used_tokens=30), 4, "m")  # 80 seen; this one stays open, 1 estimated
    admission.leave(admission.try_enter(caller(budget_tokens=100, used_tokens=80), 4, "m"), 18)  # the 50 are confirmed
    with pytest.raises(Refused, match="budget of 95 tokens") as refused:
        admission.try_enter(caller(budget_tokens=95, used_tokens=80), 4, "m")
    assert (refused.value.status, refused.value.code, refused.value.retry_after_s) == (429, "insufficient_quota", None)
    assert admission.try_enter(caller(budget_tokens=101, used_tokens=80), 4, "m")


def test_a_limit_that_is_changed_holds_from_the_next_call_on(make):
    admission = make()
    assert admission.try_enter(caller(max_concurrency=1), 1, "m")
    assert admission.try_enter(caller(max_concurrency=1), 1, "m") is None
    assert admission.try_enter(caller(max_concurrency=2), 1, "m")
    assert admission.try_enter(caller(), 1, "m")

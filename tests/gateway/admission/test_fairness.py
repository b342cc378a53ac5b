"""Whatever comes, leaves or gives up, in any order: no place is lost, no limit exceeded, nobody waits beside a free place."""

import asyncio
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.admission import Admission, Board, QueueBounds
from tests.gateway.admission.conftest import caller, fleet

KEYS = [caller("a", "x", max_concurrency=2), caller("b", "x"), caller("c", "y", max_concurrency=1), caller("d", "z")]
Steps = st.lists(st.tuples(st.sampled_from(["enter", "leave", "give up"]), st.integers(0, 50)), max_size=60)


@pytest.mark.slow
@settings(max_examples=60)
@given(Steps, st.integers(1, 5))
def test_places_are_neither_lost_nor_given_twice(steps, capacity):
    with tempfile.TemporaryDirectory() as directory:
        asyncio.run(play(Path(directory), steps, capacity))


async def play(directory, steps, capacity):
    admission = Admission(Board(directory), QueueBounds())
    admission.watch(fleet(capacity))
    tasks = []  # (task, key), entering or inside
    for what, which in steps:
        if what == "enter":
            key = KEYS[which % len(KEYS)]
            tasks.append((asyncio.create_task(admission.enter(key, 8, "m")), key))
        elif tasks:
            task, _ = tasks.pop(which % len(tasks))
            if task.done():
                admission.leave(task.result(), 0)
            else:
                task.cancel()
        if which % 3:  # at times several steps happen before anybody's task runs
            await settle(tasks)
            check(admission, tasks, capacity)
    await settle(tasks)
    while tasks:
        inside = [entry for entry in tasks if entry[0].done()]
        assert inside, "calls wait and nobody is inside"
        tasks.remove(inside[0])
        admission.leave(inside[0][0].result(), 0)
        await settle(tasks)
    assert admission.num_waiting == 0
    assert all(admission.try_enter(KEYS[3], 1, "m") for _ in range(capacity))
    admission.close()


async def settle(tasks):
    for _ in range(4):
        await asyncio.sleep(0)


def check(admission, tasks, capacity):
    inside = [key.key_id for task, key in tasks if task.done()]
    outside = [key for task, key in tasks if not task.done()]
    assert len(inside) <= capacity
    assert all(inside.count(key.key_id) <= key.limits.max_concurrency for key in KEYS if key.limits)
    assert admission.num_waiting == len(outside)
    if len(inside) < capacity:  # a free place, so whoever waits is held by its own key
        assert all(key.limits and inside.count(key.key_id) == key.limits.max_concurrency for key in outside)

"""The table that processes share: sums, the row of a process that died, what a restart keeps, and its room."""

import asyncio
import os
import signal
import subprocess
import sys

import pytest

from gateway.admission import Admission, Board, QueueBounds, board
from gateway.admission.board import CONFIRMED, PENDING
from gateway.errors import Refused
from tests.gateway.admission.conftest import caller, fleet
from tests.gateway.sse import eventually

HOLD = """
import sys, pathlib
from gateway.admission import Board
board = Board(pathlib.Path(sys.argv[1]))
board.ints[board.cell(board.slot("key:k"))] = 3
print("held", flush=True)
sys.stdin.read()
"""
CONTEND = """
import sys, pathlib
from gateway.admission import Admission, Board, QueueBounds
from tests.gateway.admission.conftest import caller, fleet
board = Board(pathlib.Path(sys.argv[1]))
admission = Admission(board, QueueBounds())
key = caller(max_concurrency=3, budget_tokens=10**9)
slot, most, entered = board.slot("key:k"), 0, 0
print("ready", flush=True)
sys.stdin.readline()
for _ in range(4000):
    ticket = admission.try_enter(key, 0, "m")
    if ticket is not None:
        entered += 1
        most = max(most, board.total(slot))
        admission.leave(ticket, 1)
print(most, entered, flush=True)
sys.stdin.read()
"""


def start(code, directory):
    command, pipe = [sys.executable, "-c", code, str(directory)], subprocess.PIPE
    process = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True)
    process.stdout.readline()
    return process


def end(process):
    process.kill()
    process.communicate()


async def test_counts_of_all_processes_add_up_and_those_of_a_dead_one_vanish(tmp_path):
    mine = Board(tmp_path)
    slot = mine.slot("key:k")
    mine.ints[mine.cell(slot)] = 2
    assert mine.alone
    process = start(HOLD, tmp_path)
    assert not mine.alone
    assert mine.total(slot) == 5
    mine.sweep()
    assert mine.total(slot) == 5  # it lives
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()
    mine.sweep()
    assert mine.total(slot) == 2
    assert mine.alone
    mine.close()


def test_a_dead_processs_counts_vanish_from_between_those_that_live(tmp_path):
    process = start(HOLD, tmp_path)
    mine = Board(tmp_path)  # in a later row
    slot = mine.slot("key:k")
    assert mine.total(slot) == 3
    end(process)
    mine.sweep()
    assert mine.total(slot) == 0
    mine.close()


@pytest.mark.slow
async def test_limits_hold_across_processes_that_contend(tmp_path):
    mine = Board(tmp_path)
    processes = [start(CONTEND, tmp_path) for _ in range(3)]
    for process in processes:
        process.stdin.write("go\n")
        process.stdin.flush()
    told = [[int(word) for word in process.stdout.readline().split()] for process in processes]
    assert max(most for most, _ in told) <= 3
    assert mine.ints[mine.slot("key:k") + PENDING] == sum(entered for _, entered in told) > 4000  # no update is lost
    for process in processes:
        end(process)
    mine.close()


async def test_two_gateways_give_one_key_its_concurrency_once_and_hand_places_over(make):
    here, there = make(capacity=8), make(capacity=8)
    key = caller(max_concurrency=1)
    ticket = here.try_enter(key, 1, "m")
    assert there.try_enter(key, 1, "m") is None
    task = asyncio.create_task(there.enter(key, 1, "m"))
    await eventually(lambda: there.num_waiting == 1)
    here.leave(ticket, 0)
    await asyncio.wait_for(task, 10)


async def test_two_gateways_share_the_workers_capacity_and_the_idle_one_is_not_starved(make):
    here, there = make(capacity=4), make(capacity=4)
    inside = [here.try_enter(caller(), 1, "m") for _ in range(4)]
    assert all(inside) and there.try_enter(caller(), 1, "m") is None
    mine = [asyncio.create_task(here.enter(caller(), 1, "m")) for _ in range(8)]
    theirs = asyncio.create_task(there.enter(caller(), 1, "m"))
    await eventually(lambda: here.num_waiting == 8 and there.num_waiting == 1)
    here.leave(inside.pop())
    await asyncio.wait_for(theirs, 10)  # not one of the eight that came before
    for task in mine:
        task.cancel()


def test_unconfirmed_tokens_outlive_a_restart_and_rates_do_not(tmp_path, clock):
    key = caller(budget_tokens=100, requests_per_minute=1, used_tokens=10)
    first = Admission(Board(tmp_path), QueueBounds(), clock)
    first.watch(fleet(None))
    first.leave(first.try_enter(key, 0, "m"), 95)
    first.close()
    second = Admission(Board(tmp_path), QueueBounds(), clock)
    with pytest.raises(Refused) as refused:
        second.try_enter(key, 0, "m")
    assert refused.value.code == "insufficient_quota"
    again = Board(tmp_path)  # another process joins: nothing is dropped
    assert again.ints[again.slot("key:k") + PENDING] == 95
    assert again.ints[again.slot("key:k") + CONFIRMED] == 10
    again.close()
    second.close()


def test_a_table_that_is_full_refuses_further_keys_with_limits(make, monkeypatch):
    monkeypatch.setattr(board, "NUM_SLOTS", 4)
    monkeypatch.setattr(board, "_BYTES", 8 * (8 + 4 * 72))
    admission = make()  # two slots are taken by the gates
    assert admission.try_enter(caller("a", max_concurrency=1), 1, "m")
    assert admission.try_enter(caller("b", max_concurrency=1), 1, "m")
    with pytest.raises(Refused) as refused:
        admission.try_enter(caller("c", max_concurrency=1), 1, "m")
    assert (refused.value.status, refused.value.code) == (503, "limits_full")
    assert admission.try_enter(caller("d"), 1, "m")

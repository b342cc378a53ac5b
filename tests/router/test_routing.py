"""Lanes, drains, outliers, back-pressure and policies: who is passed over, for how long, and that somebody always serves."""

import math
import os
from collections import Counter
from hashlib import blake2b

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from router import ejection, workers
from router.choose import BOUND, Routing, choose, lane_of, load_limit
from router.ejection import Ejection
from router.recent import IDLE_S, NUM_BYTES, RecentKeys
from router.workers import Health, Worker

MODELS = frozenset({"m"})
KEYS = [blake2b(b"%d" % i, digest_size=16).digest() for i in range(3000)]


def fleet(count, **fields):
    return [Worker(f"http://10.0.0.{i}:30000", Health.READY, models=MODELS, **fields) for i in range(count)]


def first(key, able, routing=None):
    return choose(key, "m", able, routing or Routing())[0].url


@pytest.fixture
def now(monkeypatch):
    """The routers' clock; move it by adding to ``now[0]``."""
    moment = [1000.0]
    monkeypatch.setattr(workers.time, "monotonic", lambda: moment[0])
    return moment


@pytest.mark.slow
@settings(max_examples=25)
@given(st.integers(2, 9), st.integers(0, 8))
def test_a_worker_more_or_less_moves_only_its_own_share(count, which):
    able = fleet(count)
    without = [worker for i, worker in enumerate(able) if i != which % count]
    moved = Counter(first(key, able) for key in KEYS if first(key, able) != first(key, without))
    assert set(moved) <= {able[which % count].url}  # whoever moved came from there, or goes there when it is added
    assert abs(moved.total() / len(KEYS) - 1 / count) < 0.05


@pytest.mark.slow
@given(st.integers(1, 12), st.integers(1, 200), st.randoms())
def test_no_worker_gets_more_than_the_bound_however_the_keys_fall(count, num_calls, random):
    able = fleet(count)
    hot = random.sample(KEYS, 3)
    for _ in range(num_calls):
        limit = load_limit(able)
        chosen = choose(random.choice(hot), "m", able)[0]
        assert count == 1 or chosen.load < limit
        chosen.num_in_flight += 1
        if random.random() < 0.3:
            busy = random.choice([worker for worker in able if worker.num_in_flight])
            busy.num_in_flight -= 1
    assert load_limit(able) == math.ceil(BOUND * (sum(worker.load for worker in able) + 1) / count)


@given(st.lists(st.integers(0, 20), min_size=4, max_size=4), st.integers(0, 1000), st.sampled_from(KEYS))
def test_replicas_that_see_the_same_loads_agree(loads, share, key):
    def replica():
        able = [*fleet(3), Worker("http://10.0.1.1:1", Health.READY, models=MODELS, lane="canary")]
        for worker, load in zip(able, loads, strict=True):
            worker.num_elsewhere = load
        return [worker.url for worker in choose(key, "m", able, Routing(canary_per_mille=share))]

    assert replica() == replica()


@given(st.sampled_from(KEYS), st.integers(0, 1000), st.integers(0, 1000))
def test_a_larger_canary_share_keeps_what_a_smaller_one_had(key, one, other):
    if lane_of(key, min(one, other)) == "canary":
        assert lane_of(key, max(one, other)) == "canary"


def test_the_canary_lane_gets_its_share_and_each_lane_stands_in_for_the_other():
    stable, canary = fleet(3), Worker("http://10.0.1.1:1", Health.READY, models=MODELS, lane="canary")
    routing = Routing(canary_per_mille=100)
    mine = [key for key in KEYS if first(key, [*stable, canary], routing) == canary.url]
    assert 0.07 < len(mine) / len(KEYS) < 0.13
    assert all(first(key, [*stable, canary], Routing()) != canary.url for key in mine)
    canary.health = Health.DOWN
    assert first(mine[0], [*stable, canary], routing) != canary.url
    canary.health = Health.READY
    for worker in stable:
        worker.health = Health.DOWN
    assert first(b"any", [*stable, canary], routing) == canary.url


def test_a_small_canary_lane_does_not_push_the_stable_one_over_its_bound():
    able = [*fleet(2), Worker("http://10.0.1.1:1", Health.READY, models=MODELS, lane="canary")]
    able[0].num_in_flight, able[1].num_in_flight = 10, 6  # within 1.25 of their own mean, not of all three's
    favourites = {first(key, able) for key in KEYS[:200]}
    assert favourites == {able[0].url, able[1].url}


def test_a_draining_worker_keeps_its_sessions_and_gets_no_new_ones():
    able = fleet(3)
    old = KEYS[:300]
    before = {key: first(key, able) for key in old}
    able[0].draining = True
    assert {key: first(key, able) for key in old} == before
    fresh = KEYS[300:1300]
    leaked = sum(first(key, able) == able[0].url for key in fresh)
    assert leaked <= 2  # a Bloom filter of 2^20 bits may take a few for old ones
    assert first(b"new", able[:1]) == able[0].url  # alone it serves whoever comes


def test_a_session_that_was_idle_long_enough_leaves_a_draining_worker():
    moment = [10 * IDLE_S]
    able = fleet(2)
    able[0].recent = RecentKeys(clock=lambda: moment[0])
    mine = next(key for key in KEYS if first(key, able) == able[0].url)
    able[0].draining = True
    moment[0] += IDLE_S
    assert first(mine, able) == able[0].url and not able[0].recent.empty
    moment[0] += 2 * IDLE_S
    assert able[0].recent.empty
    assert first(mine, able) == able[1].url


def test_processes_share_what_is_recent_and_old_generations_make_room():
    moment, buffer = [0.0], memoryview(bytearray(NUM_BYTES))
    here, there = (RecentKeys(buffer, lambda: moment[0]) for _ in range(2))
    for generation in range(5):
        key = os.urandom(16)
        moment[0] = generation * IDLE_S + 1
        here.add(key)
        assert key in there and os.urandom(16) not in there
        moment[0] += IDLE_S
        assert key in there
        moment[0] += IDLE_S
        assert key not in there


def test_ejection_lasts_twice_as_long_each_time_up_to_a_limit_and_is_forgotten():
    record, now, lasted = Ejection(), 100.0, []
    for _ in range(9):
        while not record.holds(now):
            record.failed(now)
        lasted.append(record.until - now)
        now = record.until
    assert lasted == [1, 2, 4, 8, 16, 32, 60, 60, 60]
    record.succeeded()
    now += ejection.LONGEST_S + 1
    for _ in range(ejection.FAILURES):
        assert not record.holds(now)
        record.failed(now)
    assert record.until - now == 1


def test_a_worker_that_fails_is_left_out_and_comes_back(now):
    able = fleet(2)
    favourite = choose(b"k", "m", able)[0]
    for _ in range(2):
        favourite.answered(500)
    assert first(b"k", able) == favourite.url
    favourite.failed()
    assert first(b"k", able) != favourite.url
    now[0] += 1
    assert first(b"k", able) == favourite.url
    favourite.failed()  # on probation: once is enough
    assert first(b"k", able) != favourite.url
    now[0] += 2
    favourite.answered(200)
    favourite.failed()
    assert first(b"k", able) == favourite.url


def test_when_all_are_ejected_somebody_serves_still(now):
    able = fleet(2)
    for worker in able:
        for _ in range(5):
            worker.failed()
    assert len(choose(b"k", "m", able)) == 2


@pytest.mark.parametrize("status", [400, 404, 413, 422, 499])
def test_twenty_bad_requests_in_a_row_eject_nobody(now, status):
    able = fleet(2)
    favourite = choose(b"k", "m", able)[0]
    for _ in range(20):
        favourite.answered(status)
    assert first(b"k", able) == favourite.url and favourite.plain


@pytest.mark.parametrize("status", [429, 503])
def test_back_pressure_spares_a_worker_for_as_long_as_it_asks_and_ejects_it_never(now, status):
    able = fleet(2)
    favourite = choose(b"k", "m", able)[0]
    for _ in range(20):
        favourite.answered(status, retry_after_s=5)
    assert not favourite.ejection.num_failures
    assert first(b"k", able) != favourite.url
    now[0] += 5
    assert first(b"k", able) == favourite.url


def test_a_refused_connection_takes_a_worker_down_at_once(now):
    worker = fleet(1)[0]
    worker.unreachable()
    assert worker.health is Health.DOWN and choose(b"k", "m", [worker]) == []


def test_least_loaded_counts_what_others_sent_and_round_robin_goes_round():
    able = fleet(3)
    able[0].num_in_flight, able[1].num_elsewhere, able[2].num_in_flight = 2, 1, 3
    assert {first(key, able, Routing("least-loaded")) for key in KEYS[:20]} == {able[1].url}
    for worker in able:
        worker.num_in_flight = worker.num_elsewhere = 0
    turns = Routing("round-robin")
    counts = Counter(first(b"same", able, turns) for _ in range(30))
    assert set(counts.values()) == {10}

"""The choice of a worker: stable, balanced, bounded, and blind to workers that do not answer."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from router.choose import choose, load_limit
from router.workers import Health, Worker, served_models

MODELS = frozenset({"m"})


def fleet(count: int, health: Health = Health.READY) -> list[Worker]:
    return [Worker(f"http://10.0.0.{i}:30000", health, models=MODELS) for i in range(count)]


def urls(workers: list[Worker]) -> list[str]:
    return [worker.url for worker in workers]


@given(st.binary(min_size=1, max_size=64), st.randoms())
def test_the_order_does_not_depend_on_how_the_workers_are_listed(key, random):
    workers = fleet(5)
    shuffled = workers.copy()
    random.shuffle(shuffled)
    assert urls(choose(key, "m", workers)) == urls(choose(key, "m", shuffled))


@given(st.binary(min_size=1, max_size=64), st.integers(0, 4))
def test_losing_a_worker_moves_only_its_own_keys(key, lost):
    workers = fleet(5)
    before = urls(choose(key, "m", workers))
    workers[lost].health = Health.DOWN
    assert urls(choose(key, "m", workers)) == [url for url in before if url != workers[lost].url]


def test_keys_spread_evenly():
    counts = Counter(choose(b"%d" % i, "m", fleet(4))[0].url for i in range(4000))
    assert len(counts) == 4
    assert all(850 < count < 1150 for count in counts.values())


def test_a_worker_above_the_bound_is_passed_over_and_gets_its_key_back():
    workers = fleet(3)
    first, second, _ = choose(b"session", "m", workers)
    first.num_in_flight = 9
    assert load_limit(workers) == 5
    assert choose(b"session", "m", workers)[0] is second
    assert choose(b"session", "m", workers)[-1] is first
    first.num_in_flight = 0
    assert choose(b"session", "m", workers)[0] is first


def test_a_waiting_worker_serves_only_when_no_other_is_ready():
    workers = fleet(2)
    favourite = choose(b"k", "m", workers)[0]
    favourite.health = Health.WAITING
    assert choose(b"k", "m", workers)[-1] is favourite
    for worker in workers:
        worker.health = Health.WAITING
    assert choose(b"k", "m", workers)[0] is favourite


def test_workers_that_are_down_or_serve_another_model_are_left_out():
    assert choose(b"k", "m", fleet(3, Health.DOWN)) == []
    assert choose(b"k", "other", fleet(3)) == []


def test_in_flight_counts_calls_even_when_they_fail():
    worker = Worker("http://a")
    try:
        with worker.serving():
            assert worker.num_in_flight == 1
            raise KeyError
    except KeyError:
        pass
    assert worker.num_in_flight == 0


def test_models_of_a_worker_that_is_down_are_still_known():
    down = Worker("http://b", Health.DOWN, models=frozenset({"x"}))
    assert served_models([*fleet(1), down]) == {"m", "x"}

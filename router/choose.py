"""The order in which workers should be tried for a call. Pure: same key, workers and loads give the same answer.

Rendezvous hashing (Thaler and Ravishankar, 1998) with bounded loads (Mirrokni, Thorup and Zadimoghaddam, 2018, arXiv 1608.01350):
a worker above ``BOUND`` times the mean load is passed over, and the call spills to the next in its own order, so it comes back.
"""

import math
from collections.abc import Iterable
from hashlib import blake2b

from router.workers import Health, Worker

BOUND = 1.25


def choose(key: bytes, model: str, workers: Iterable[Worker]) -> list[Worker]:
    """The workers that may serve ``model``, best first; empty if none answers.

    Ready workers come before waiting ones. Within each, those below the load bound come first, in rendezvous order of ``key``.
    """
    able = [worker for worker in workers if worker.health is not Health.DOWN and model in worker.models]
    if len(able) < 2:
        return able
    limit = load_limit(able)
    return sorted(able, key=lambda worker: (worker.health, worker.num_in_flight >= limit, -score(key, worker.url)))


def load_limit(workers: list[Worker]) -> int:
    """The most calls that a worker may hold when one more comes: ``ceil(BOUND * (total + 1) / workers)``."""
    total = sum(worker.num_in_flight for worker in workers)
    return math.ceil(BOUND * (total + 1) / len(workers))


def score(key: bytes, url: str) -> int:
    """The rendezvous weight of ``key`` on the worker at ``url``: 64 uniform bits."""
    return int.from_bytes(blake2b(key, key=blake2b(url.encode(), digest_size=32).digest(), digest_size=8).digest())

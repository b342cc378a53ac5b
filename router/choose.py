"""The order in which workers should be tried for a call. Same key, workers and loads give the same answer in every replica.

Rendezvous hashing (Thaler and Ravishankar, 1998) with bounded loads (Mirrokni, Thorup and Zadimoghaddam, 2018, arXiv 1608.01350):
a worker above ``BOUND`` times the mean load is passed over, and the call spills to the next in its own order, so it comes back.
"""

import math
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Literal

from router.workers import Health, Lane, Worker

BOUND = 1.25
Policy = Literal["affinity", "least-loaded", "round-robin"]
_DOWN = Health.DOWN
"""A name of its own: an Enum's members take five times as long to look up."""


@dataclass(slots=True)
class Routing:
    """How calls are spread. ``canary_per_mille`` of the keys go to the canary lane where it has workers.

    ``turn`` counts calls, for round-robin.
    """

    policy: Policy = "affinity"
    canary_per_mille: int = 0
    turn: int = 0


_BY_AFFINITY = Routing()


def choose(key: bytes, model: str, workers: Iterable[Worker], routing: Routing = _BY_AFFINITY) -> list[Worker]:
    """The workers that may serve ``model``, best first; empty if none answers. It remembers ``key`` as one of the first's.

    First come those that are neither ejected nor draining (but for keys of their own), then those of the key's lane, ready ones
    before waiting ones, those below the load bound, and among these the order of the policy. What comes later still serves, where
    nothing better answers.
    """
    able = [worker for worker in workers if worker.health is not _DOWN and model in worker.models]
    if len(able) < 2:
        return able
    order = _ordered(key, able, routing)
    order[0].recent.add(key)
    return order


def _ordered(key: bytes, able: list[Worker], routing: Routing) -> list[Worker]:
    if routing.policy == "affinity" and all(worker.plain for worker in able):
        limit = load_limit(able)
        return sorted(able, key=lambda worker: (worker.load >= limit, -score(key, worker)))
    now = time.monotonic()
    lane = lane_of(key, routing.canary_per_mille) if any(worker.lane == "canary" for worker in able) else "stable"
    shunned = {worker.url: worker.ejection.holds(now) or (worker.draining and key not in worker.recent) for worker in able}
    fit = [worker for worker in able if not shunned[worker.url]]
    limits = {name: load_limit([worker for worker in fit if worker.lane == name]) for name in ("stable", "canary")}
    ranks = _policy_ranks(key, able, routing)

    def rank(worker: Worker) -> tuple[bool, bool, Health, bool, float]:
        above = worker.load >= limits[worker.lane] or now < worker.busy_until
        return shunned[worker.url], worker.lane != lane, worker.health, above, ranks[worker.url]

    return sorted(able, key=rank)


def _policy_ranks(key: bytes, able: Sequence[Worker], routing: Routing) -> dict[str, float]:
    """By URL; lower is better. Ties of load go by affinity."""
    if routing.policy == "round-robin":
        routing.turn += 1
        return {url: (i - routing.turn) % len(able) for i, url in enumerate(sorted(worker.url for worker in able))}
    if routing.policy == "least-loaded":
        return {worker.url: worker.load - score(key, worker) / 2**64 for worker in able}
    return {worker.url: -score(key, worker) for worker in able}


def load_limit(workers: Sequence[Worker]) -> int:
    """The most calls that a worker may hold when one more comes: ``ceil(BOUND * (total + 1) / workers)``."""
    total = sum(worker.load for worker in workers)
    return math.ceil(BOUND * (total + 1) / len(workers)) if workers else 0


def lane_of(key: bytes, canary_per_mille: int) -> Lane:
    """The lane of ``key``: a larger share keeps all that a smaller one had."""
    digest = blake2b(key, digest_size=8, person=b"lane").digest()
    return "canary" if int.from_bytes(digest) % 1000 < canary_per_mille else "stable"


def score(key: bytes, worker: Worker) -> int:
    """The rendezvous weight of ``key`` on ``worker``: 64 uniform bits."""
    hasher = worker.hasher.copy()
    hasher.update(key)
    return int.from_bytes(hasher.digest())

"""Memory over many requests: resident size of our gateway before and after, with recording on."""

import threading
from dataclasses import dataclass
from pathlib import Path

from bench.gateway.contestants import Running
from bench.gateway.measure import measure, trim
from bench.gateway.plan import SMALL
from bench.gateway.processes import rss_mb

_SETTLE_REQUESTS = 20_000


@dataclass(slots=True, frozen=True)
class Growth:
    """``before_mb`` is after up to 20,000 requests, when caches and pools are full; ``after_mb`` after ``requests`` more."""

    requests: int
    before_mb: float
    after_mb: float


def grow(gateway: Running, num_requests: int, limit_s: float, directory: Path) -> Growth:
    """Send ``num_requests`` small calls, or as many as ``limit_s`` allows.

    Full journal segments are removed meanwhile, as a drain would.
    """
    done = threading.Event()
    trimmer = threading.Thread(target=_keep_trimmed, args=(gateway.journal, done))
    trimmer.start()
    try:
        measure(gateway, SMALL, directory, seconds=limit_s / 4, warmup_s=0.0, max_requests=_SETTLE_REQUESTS)
        before = rss_mb(gateway.pid)
        sample = measure(gateway, SMALL, directory, seconds=limit_s, warmup_s=0.0, max_requests=num_requests)
        return Growth(sample.load.requests, before, rss_mb(gateway.pid))
    finally:
        done.set()
        trimmer.join()


def _keep_trimmed(journal: Path | None, done: threading.Event) -> None:
    while not done.wait(0.5):
        trim(journal)

"""What the router knows of each inference worker. One event loop owns this state, so there is no lock.

The gateway's poller and its relay write it; ``router.choose`` reads it.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import IntEnum
from hashlib import blake2b
from typing import Literal

from router.ejection import Ejection
from router.recent import RecentKeys

Lane = Literal["stable", "canary"]
_BACK_OFF_S = 1.0
_MAX_BACK_OFF_S = 30.0


class Health(IntEnum):
    """READY takes calls. WAITING answers but is not ready, as during a weight swap: calls wait there. DOWN gets none: it does not
    answer, or it must not serve (``Worker.refusal`` says why).
    """

    READY = 0
    WAITING = 1
    DOWN = 2


@dataclass(slots=True)
class Worker:
    """One inference worker. Times are in seconds of ``time.monotonic``.

    ``external`` ones are proxies of other providers: no engine of ours, nothing to swap, no record. A ``draining`` one keeps the
    affinity keys that it served of late and gets no new ones.

    Example:
        >>> worker = Worker("http://127.0.0.1:30000")
        >>> with worker.serving():
        ...     assert worker.num_in_flight == 1
    """

    url: str
    health: Health = Health.DOWN
    num_in_flight: int = 0
    models: frozenset[str] = field(default_factory=frozenset)
    max_running: int | None = None
    """Calls that it runs at once, by its own word; more would wait inside it. None: it does not say."""
    num_elsewhere: int = 0
    """Calls that it had from others than this process when it was last asked."""
    kind: Literal["sglang", "external"] = "sglang"
    lane: Lane = "stable"
    draining: bool = False
    busy_until: float = 0.0
    version: str = ""
    """The weights that it says it holds; empty where it does not say."""
    instance: str = ""
    """Which start of it this is, by its own word."""
    proven: str | None = None
    """The start of it whose weights were compared with the record; None: nobody keeps a record here, and no proof is asked for."""
    allowed: frozenset[str] = frozenset()
    """The versions that its lane serves; empty: any."""
    out: str = ""
    """Why whoever publishes versions took it out of rotation; empty where nobody did."""
    ejection: Ejection = field(default_factory=Ejection)
    recent: RecentKeys = field(default_factory=RecentKeys, repr=False)
    hasher: blake2b = field(init=False, repr=False)
    """Gives its rendezvous weights: copy it, add the key."""

    def __post_init__(self) -> None:
        self.hasher = blake2b(key=blake2b(self.url.encode(), digest_size=32).digest(), digest_size=8)

    @property
    def load(self) -> int:
        """Calls that it holds, as far as anybody knows."""
        return self.num_in_flight + self.num_elsewhere

    @property
    def refusal(self) -> str:
        """Why it must not serve although it answers; empty if it may."""
        if self.out:
            return self.out
        if self.version and self.allowed and self.version not in self.allowed:
            return f"holds {self.version}, its lane serves {' and '.join(sorted(self.allowed))}"
        if self.proven is not None and not (self.instance and self.proven == self.instance):
            return f"has not shown yet that its weights are those of {self.version or 'what serves'}; the keeper asks it"
        return ""

    @property
    def plain(self) -> bool:
        """Whether nothing but its load and the key decide on it, as with all workers most of the time."""
        return not (self.health or self.draining or self.ejection.until or self.busy_until or self.lane != "stable")

    @contextmanager
    def serving(self) -> Iterator[None]:
        """Count one call as in flight on this worker."""
        self.num_in_flight += 1
        try:
            yield
        finally:
            self.num_in_flight -= 1

    def answered(self, status: int, retry_after_s: float | None = None) -> None:
        """It began an answer. 5xx counts against it; 429 and 503 ask to be spared for a while; other 4xx say nothing of it."""
        if status < 400:
            self.ejection.succeeded()
        elif status in (429, 503):
            wait_s = _BACK_OFF_S if retry_after_s is None else max(0.0, min(retry_after_s, _MAX_BACK_OFF_S))
            self.busy_until = time.monotonic() + wait_s
        elif status >= 500:
            self.ejection.failed(time.monotonic())

    def failed(self) -> None:
        """It broke off, or took longer than it may."""
        self.ejection.failed(time.monotonic())

    def unreachable(self) -> None:
        """No connection could be made: it is down until it is heard of again."""
        self.health = Health.DOWN
        self.ejection.failed(time.monotonic())


def served_models(workers: list[Worker]) -> frozenset[str]:
    """Every model that some worker serves or served when it was last heard of."""
    return frozenset().union(*(worker.models for worker in workers))

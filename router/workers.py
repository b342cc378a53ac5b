"""What the router knows of each inference worker. One event loop owns this state, so there is no lock.

The gateway's poller and its relay write it; ``router.choose`` reads it.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import IntEnum


class Health(IntEnum):
    """READY takes calls. WAITING answers but is not ready, as during a weight swap: calls wait there. DOWN does not answer."""

    READY = 0
    WAITING = 1
    DOWN = 2


@dataclass(slots=True)
class Worker:
    """One inference worker.

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

    @contextmanager
    def serving(self) -> Iterator[None]:
        """Count one call as in flight on this worker."""
        self.num_in_flight += 1
        try:
            yield
        finally:
            self.num_in_flight -= 1


def served_models(workers: list[Worker]) -> frozenset[str]:
    """Every model that some worker serves or served when it was last heard of."""
    return frozenset().union(*(worker.models for worker in workers))

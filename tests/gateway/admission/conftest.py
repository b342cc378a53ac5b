"""An admission on a board of its own, with a clock that a test moves."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gateway.admission import Admission, Board, QueueBounds
from gateway.keys import Identity, KeyLimits
from router.workers import Health, Worker


class Clock:
    """Wall-clock seconds that move only when told."""

    def __init__(self) -> None:
        self.now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


def caller(key_id: str = "k", tenant: str = "t", **limits: int) -> Identity:
    """Who calls with ``key_id``; without ``limits`` the key has none."""
    return Identity(key_id, tenant, "desk", "agent", frozenset(), True, None, b"salt", KeyLimits(**limits) if limits else None)


def fleet(capacity: int | None, health: Health = Health.READY) -> list[Worker]:
    """One worker of model ``m`` that runs ``capacity`` calls at once."""
    return [Worker("http://10.0.0.1:1", health, models=frozenset({"m"}), max_running=capacity)]


@pytest.fixture
def clock() -> Clock:
    return Clock()


Make = Callable[..., Admission]


@pytest.fixture
def make(tmp_path: Path, clock: Clock) -> Iterator[Make]:
    """Makes an admission; every one that it made is closed at the end. All share one board's file."""
    made: list[Admission] = []

    def one(capacity: int | None = None, **bounds: float) -> Admission:
        admission = Admission(Board(tmp_path), QueueBounds(**bounds), clock)  # type: ignore[arg-type]
        admission.watch(fleet(capacity))
        made.append(admission)
        return admission

    yield one
    for admission in made:
        admission.close()

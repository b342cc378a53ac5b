"""One rank in this process, and the micro model."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.workers.trainer.micro import make_micro
from workers.trainer.ranks import Ranks, start_ranks, stop_ranks


@pytest.fixture(scope="session")
def ranks() -> Iterator[Ranks]:
    """The only rank."""
    started = start_ranks()
    yield started
    stop_ranks()


@pytest.fixture(scope="session")
def micro(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with the micro model."""
    return make_micro(tmp_path_factory.mktemp("models") / "micro")

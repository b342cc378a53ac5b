"""One rank in this process, for whatever computes as the trainer does."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from workers.trainer.ranks import Ranks


@pytest.fixture(scope="session")
def ranks() -> "Iterator[Ranks]":
    """The only rank."""
    from workers.trainer.ranks import start_ranks, stop_ranks  # wants torch, which most tests here do without

    yield start_ranks()
    stop_ranks()

"""A data proxy and a clock for every test that asks."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.dataproxy.proxy import Clock, Proxy


@pytest.fixture
def clock() -> Clock:
    """A clock that stands still."""
    return Clock()


@pytest.fixture
def proxy(tmp_path: Path, clock: Clock) -> Iterator[Proxy]:
    """A data proxy on an empty directory; acme consents to everything."""
    made = Proxy(tmp_path, clock)
    made.consent()
    yield made
    made.services.database.close()

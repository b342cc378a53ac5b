"""One Headrace without a trainer for all tests that need no other: the tiny model, and the tests' own tap in its engine."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from deploy.launcher.running import RunningStack
from tests.engine_fixture import TAP
from tests.stack import running_stack


class TappedStack(NamedTuple):
    """A running stack; ``tap`` grows by a line per request that its engine finished."""

    stack: RunningStack
    tap: Path


@pytest.fixture(scope="session")
def tapped_stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TappedStack]:
    """Shared: a test takes a tenant of its own, and leaves the engine with the weights that it began with."""
    directory = tmp_path_factory.mktemp("tapped")
    tap = directory / "tap.jsonl"
    tap.touch()
    environment = {"PYTHONPATH": os.pathsep.join([str(TAP), os.environ.get("PYTHONPATH", "")]), "HEADRACE_TEST_TAP": str(tap)}
    with running_stack(directory, "--no-train", environment=environment) as stack:
        yield TappedStack(stack, tap)

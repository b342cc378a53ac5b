"""The micro model."""

from pathlib import Path

import pytest

from tests.workers.trainer.micro import make_micro


@pytest.fixture(scope="session")
def micro(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with the micro model."""
    return make_micro(tmp_path_factory.mktemp("models") / "micro")

"""One Headrace for all agents: the model that knows their conversations, and a tapped engine."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.e2e.agents.model import ensure_agent_model
from tests.e2e.agents.recorded import Desk
from tests.engine_fixture import TAP
from tests.stack import running_stack


@pytest.fixture(scope="package")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    directory = tmp_path_factory.mktemp("agents")
    tap = directory / "tap.jsonl"
    tap.touch()
    environment = {"PYTHONPATH": os.pathsep.join([str(TAP), os.environ.get("PYTHONPATH", "")]), "HEADRACE_TEST_TAP": str(tap)}
    options = ["--no-train", "--model", str(ensure_agent_model()), "--engine-args", "--tool-call-parser qwen25"]
    with running_stack(directory, *options, environment=environment) as stack:
        desk = Desk(stack, tap)
        yield desk
        assert desk.num_running() == 0
        started = psutil.Process(stack.process.pid).children(recursive=True)
    assert not [process for process in started if process.is_running() and process.status() != psutil.STATUS_ZOMBIE]


@pytest.fixture(scope="package")
def hermes_python() -> str:
    """The Python that has Hermes Agent; installs it where it is missing."""
    script = Path(__file__).parents[3] / "deploy" / "agents" / "install.sh"
    installed = subprocess.run([script], capture_output=True, text=True, check=False)
    assert installed.returncode == 0, installed.stderr
    return installed.stdout.strip()

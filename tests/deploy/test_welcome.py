"""The first screen of `headrace up`, without anything that runs: where agents and people find it."""

import io
from pathlib import Path

import pytest
from rich.console import Console

from dataproxy.client.types import Consent
from deploy.commands.console import URL
from deploy.commands.up import welcome
from deploy.launcher.first_run import FirstRun
from deploy.launcher.options import UpOptions
from deploy.launcher.stack import Endpoints
from deploy.paths import Paths

_ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("key", ["hr_new", None])
def test_it_says_where_the_gateway_is_and_where_the_console(key: str | None) -> None:
    console = Console(file=io.StringIO(), width=40, record=True)
    endpoints = Endpoints("http://127.0.0.1:8081", "http://127.0.0.1:30000")
    consent = Consent(tenant="default", recording=True, training=False, reason="r")
    welcome(console, UpOptions(Paths(Path("/data"), Path("/config"))), endpoints, FirstRun(key, consent))
    screen = console.export_text().splitlines()
    (gateway,) = [number for number, line in enumerate(screen) if "base URL at http://127.0.0.1:8081/v1" in line]
    assert screen[gateway + 1] == f"For reviewers and trainers: headrace console, then {URL} in a browser."
    assert any("hr_new" in line for line in screen) is (key is not None)


@pytest.mark.parametrize("document", ["README.md", "docs/console.md"])
def test_documents_name_the_same_place(document: str) -> None:
    assert URL in (_ROOT / document).read_text()

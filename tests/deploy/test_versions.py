"""The commands on versions' files, as a person calls them: on a data directory that nothing runs on."""

import subprocess
import sys
from pathlib import Path

import pytest

from deploy.commands.versions_serve import why_not
from tests.workers.trainer.micro import make_micro
from workers.trainer.version_directory import adopt_base
from workers.trainer.version_keeping import pin_of


def headrace(directory: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    where = ("--data-dir", str(directory), "--config-dir", str(directory))
    command = [sys.executable, "-m", "deploy.cli", *arguments, *where]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


@pytest.mark.slow
def test_a_version_is_pinned_let_go_and_exported(tmp_path: Path) -> None:
    adopt_base(tmp_path / "versions", make_micro(tmp_path / "micro"), 1)
    directory = tmp_path / "versions" / "v000000"
    assert headrace(tmp_path, "versions", "pin", "v000000", "--reason", "the one we ship").stdout == "v000000 is pinned.\n"
    assert pin_of(directory) == "the one we ship"
    assert headrace(tmp_path, "versions", "unpin", "v000000").returncode == 0 and pin_of(directory) is None
    done = headrace(tmp_path, "versions", "export", "v000000", str(tmp_path / "out"))
    assert done.returncode == 0 and (tmp_path / "out" / "model.safetensors").exists(), done.stderr
    again = headrace(tmp_path, "versions", "export", "v000000", str(tmp_path / "out"))
    assert again.returncode == 1 and "is not empty" in again.stderr and "Traceback" not in again.stderr
    missing = headrace(tmp_path, "versions", "export", "v000007", str(tmp_path / "other"))
    assert missing.returncode == 1 and "v000007 is not on this disk; there are v000000" in missing.stderr


@pytest.mark.slow
@pytest.mark.parametrize("command", [("versions", "gc"), ("train", "--dry-run"), ("workers",), ("versions", "canary", "v000001")])
def test_what_needs_a_running_headrace_says_so(tmp_path: Path, command: tuple[str, ...]) -> None:
    done = headrace(tmp_path, *command)
    assert done.returncode == 1 and done.stderr.startswith("headrace: No Headrace runs on") and "headrace up" in done.stderr


def test_only_a_publisher_that_ended_by_itself_is_said_to_have_changed_nothing() -> None:
    refused, killed = why_not(1, "it is not on this disk\n"), why_not(-9, "")
    assert refused == "Nothing was changed; what served goes on serving.\nit is not on this disk"
    assert "Nothing was changed" not in killed and "signal 9" in killed and "headrace status" in killed

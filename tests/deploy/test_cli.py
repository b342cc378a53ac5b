"""The command line as a person meets it: help that teaches, errors that say what to do, and a start without torch."""

import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from deploy.cli import app

COMMANDS = (
    "agents",
    "up",
    "demo",
    "status",
    "keys",
    "consent",
    "console",
    "recording",
    "redaction",
    "quarantine",
    "feedback",
    "export",
    "versions",
    "rollback",
    "train",
    "audit",
    "tenant",
    "vault",
    "workers",
)
SUBCOMMANDS = {
    "versions": ("pin", "unpin", "gc", "export"),
    "train": ("--dry-run",),
    "keys": ("create", "list", "limit", "revoke", "rotate-journal"),
    "recording": ("set", "show"),
    "agents": ("list", "set"),
    "feedback": ("give", "dead", "retry"),
    "redaction": ("show", "set", "test"),
    "quarantine": ("list", "show", "retry"),
    "consent": ("grant", "revoke", "show"),
    "tenant": ("export", "import"),
    "vault": ("request", "approve", "revoke"),
    "audit": (
        *("list", "show", "trajectory", "search-at-rest", "verify", "export", "log", "search", "erase", "hold", "retention"),
    ),
}


def headrace(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "deploy.cli", *arguments], capture_output=True, text=True, timeout=60, check=False)


def test_help_lists_every_command() -> None:
    done = headrace("--help")
    assert done.returncode == 0
    assert all(command in done.stdout for command in COMMANDS)


@pytest.mark.parametrize("command", COMMANDS)
def test_each_command_has_help(command: str) -> None:
    done = CliRunner().invoke(app, [command, "--help"])  # in this process: as a process of its own each takes a second
    assert done.exit_code == 0, done.output
    assert all(name in done.output for name in SUBCOMMANDS.get(command, ()))


@pytest.mark.slow
def test_an_unknown_option_is_named() -> None:
    done = headrace("up", "--prot", "9000")
    assert done.returncode == 2
    assert "--prot" in done.stderr


@pytest.mark.slow
def test_a_command_that_needs_a_running_headrace_says_so_in_one_sentence(tmp_path: Path) -> None:
    done = headrace("status", "--data-dir", str(tmp_path), "--config-dir", str(tmp_path))
    assert done.returncode == 1
    assert done.stderr.startswith("headrace: No Headrace runs on")
    assert "headrace up" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.slow
def test_a_model_that_is_none_is_refused_before_anything_starts(tmp_path: Path) -> None:
    done = headrace(
        "up", "--port", "0", "--model", str(tmp_path), "--data-dir", str(tmp_path / "d"), "--config-dir", str(tmp_path / "c")
    )
    assert done.returncode == 1
    assert "holds no model" in done.stderr
    assert not (tmp_path / "d" / "run" / "stack.json").exists()


@pytest.mark.slow
def test_the_command_line_starts_without_what_is_heavy() -> None:
    heavy = ("torch", "transformers", "sglang", "sqlalchemy", "presidio_analyzer", "matplotlib", "fastapi")
    code = f"import sys, deploy.cli; print([m for m in {heavy!r} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "[]"

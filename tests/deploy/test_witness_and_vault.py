"""``headrace audit witness`` and ``headrace vault``: two parties each, from the command line to the record."""

import subprocess
import sys
import time
import zipfile
from pathlib import Path

import pytest
from typer.testing import CliRunner

from deploy.cli import app
from tests.deploy.test_audit import Running, headrace

__all__ = ["headrace"]
pytestmark = pytest.mark.slow


def witness(*arguments: str, ok: bool = True) -> str:
    """The witness's own commands: nothing runs where it is."""
    done = CliRunner().invoke(app, ["audit", "witness", *arguments])
    assert (done.exit_code == 0) is ok, (done.output, done.exception)
    return done.stdout if ok else str(done.exception)


def test_a_witness_cosigns_what_grew_and_evidence_carries_its_word(headrace: Running, tmp_path: Path) -> None:
    key, request, line, seen = (str(tmp_path / name) for name in ("w.key", "ask.txt", "line.txt", "seen.json"))
    public = witness("keygen", "witness.example.com/w1", "-o", key).strip()
    headrace.proxy.clock.now_us = time.time_ns() // 1000  # a witness signs by its own clock
    log = str(headrace.proxy.files.directory / "ledger.pub")
    headrace("audit", "witness", "ask", "--tenant", "acme", "-o", request)
    witness("cosign", request, "--key", key, "--log", log, "--seen", seen, "-o", line)
    assert headrace.json("audit", "witness", "add", line, "--tenant", "acme", "--witness", public)["size"]
    assert "--old" in witness("cosign", request, "--key", key, "--log", log, "--seen", seen, ok=False)
    old = headrace.json("audit", "witness", "add", line, "--tenant", "acme", "--witness", public)["size"]
    headrace("audit", "list")
    headrace("audit", "witness", "ask", "--tenant", "acme", "--old", str(old), "-o", request)
    witness("cosign", request, "--key", key, "--log", log, "--seen", seen, "-o", line)
    headrace("audit", "witness", "add", line, "--tenant", "acme", "--witness", public)
    headrace("audit", "export", "--tenant", "acme", "-o", str(tmp_path / "e.zip"))
    with zipfile.ZipFile(tmp_path / "e.zip") as bundle:
        bundle.extractall(tmp_path / "e")
    program = [sys.executable, "-I", str(tmp_path / "e" / "verify.py"), "--witness"]
    done = subprocess.run([*program, public], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0 and "witness.example.com/w1 has cosigned" in done.stdout, done.stderr
    other = witness("keygen", "witness.example.com/w2", "-o", str(tmp_path / "x.key")).strip()
    assert subprocess.run([*program, other], capture_output=True, check=False, timeout=60).returncode == 1
    missing = headrace("audit", "verify", "--witness", public, ok=False)  # the other tenants' logs have no witness
    assert "other: no checkpoint of this log bears its signature" in missing.stdout


def test_what_one_person_asks_for_another_approves(headrace: Running, tmp_path: Path) -> None:
    reviewer = tmp_path / "reviewer.key"
    reviewer.write_text(headrace.proxy.key("reviewer", "acme"))
    asked = headrace.json("vault", "request", "--tenant", "acme", "--days", "2", "--reason", "half is masked")
    name = str(asked["approval_id"])
    refused = headrace("vault", "approve", name, "--reason", "mine", ok=False)
    assert "another person" in str(refused.exception)
    approved = headrace("vault", "approve", name, "--reason", "fine", "--key-file", str(reviewer))
    assert "kept for 2 days" in approved.stdout
    assert "approved" in headrace("vault", "list").stdout
    assert "destroyed" in headrace("vault", "revoke", name, "--reason", "over").stdout
    second = str(headrace.json("vault", "request", "--tenant", "acme", "--reason", "again")["approval_id"])
    assert "Denied" in headrace("vault", "deny", second, "--reason", "no").stdout
    assert headrace.json("audit", "verify")["ok"] is True

"""The demo's machinery, whole and real, on the tiny model: it learns nothing, and everything else must hold."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.e2e, pytest.mark.engine]


def test_one_arm_from_nothing_to_the_table(tmp_path: Path) -> None:
    found_file = tmp_path / "found.json"
    options = ["--model", "tiny", "--arms", "online", "--steps", "2", "--exam", "8", "--dir", str(tmp_path / "demo")]
    command = [sys.executable, "-m", "deploy.cli", "demo", *options, "--json", str(found_file)]
    environment = os.environ | {"HEADRACE_TRAINER_COMPUTE_DTYPE": "float32"}  # as the engine computes
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=1200, check=False)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"

    found = json.loads(found_file.read_text())
    assert found["n"] == 8
    assert found["swaps"] == 2 and len(found["in_flight_at_swaps"]) == 2
    assert max(found["in_flight_at_swaps"]) > 0, "no request was in flight at any swap"
    assert found["aborted"] == 0
    assert found["events"] >= 64
    assert 0 <= found["logprob_diff_median"] <= 0.01
    assert found["partial_before"] is not None and found["partial_after"] is not None
    assert sum(found["redactions"].values()) > 0
    assert 0 < found["trainable_share"] <= 1
    assert 0 <= found["trainable_share_personal"] <= found["trainable_share"]
    assert found["planted_found"] is True and found["values_found"] == 0
    assert (tmp_path / "demo" / "reward-curve.png").read_bytes().startswith(b"\x89PNG")
    assert "held-out success before" in done.stdout and "was NOT reached" in done.stdout
    assert [path.name for path in (tmp_path / "demo").iterdir()] == ["reward-curve.png"]

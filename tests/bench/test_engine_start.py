"""What a start costs is that of all processes of it, until it is ready; nothing of it stays, and results only where it is asked."""

import json
import os
import sys
from pathlib import Path

import pytest

from bench import engine_start
from bench.engine_start import Start, started, summary
from deploy.errors import StartFailed
from deploy.launcher.child import ChildSpec
from tests.deploy.processes import wait_gone

BURN_S, HELD_MB = 0.3, 64
_WORK = f"""
import os, pathlib, subprocess, sys, time
here, what = pathlib.Path(sys.argv[1]), sys.argv[2]
held = bytearray(os.urandom({HELD_MB} << 20)) if what != "passing" else b""
while time.process_time() < {BURN_S}:
    pass
if what == "first":
    subprocess.run([sys.executable, __file__, here, "passing"], check=True)
    subprocess.Popen([sys.executable, __file__, here, "lasting"])
if what == "lasting":
    (here / "lasting").write_text(str(os.getpid()))
    time.sleep(3600)
if what == "first":
    time.sleep(3600)
"""
STARTS = [Start(30.0, 31.0, 1200.0), Start(28.04, 33.0, 1100.0), Start(60.0, 32.0, 1300.0)]


async def test_all_processes_of_a_start_are_counted_and_ended(tmp_path: Path) -> None:
    """A process, one below it that has ended, and one below it that stays."""
    program = tmp_path / "program.py"
    program.write_text(_WORK)

    async def command() -> list[str]:
        return [sys.executable, str(program), str(tmp_path), "first"]

    async def ready() -> bool:
        return (tmp_path / "lasting").exists() and bool((tmp_path / "lasting").read_text())

    found = await started(ChildSpec("engine", command, dict(os.environ), ready, 60.0, 5.0), tmp_path)
    assert found.cpu_s > 2.5 * BURN_S and found.ready_s > 0
    assert 2 * HELD_MB < found.pss_mb < 4 * HELD_MB
    wait_gone(int((tmp_path / "lasting").read_text()))


async def test_a_start_that_fails_is_told_with_its_last_words(tmp_path: Path) -> None:
    async def command() -> list[str]:
        return [sys.executable, "-c", "import sys; sys.exit('no such model')"]

    async def ready() -> bool:
        return False

    with pytest.raises(ExceptionGroup) as failed:
        await started(ChildSpec("engine", command, dict(os.environ), ready, 60.0, 5.0), tmp_path)
    assert failed.group_contains(StartFailed, match="no such model")


def test_a_summary_has_medians_and_every_start() -> None:
    found = summary(STARTS)
    assert (found["ready_s"], found["cpu_s"], found["pss_mb"]) == (30.0, 32.0, 1200.0)
    assert found["starts"][1] == {"ready_s": 28.0, "cpu_s": 33.0, "pss_mb": 1100.0}


def test_the_last_line_is_what_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    async def measured(model: str, times: int) -> list[Start]:
        return STARTS[:times]

    result = tmp_path / "engine_start.json"
    monkeypatch.setattr(engine_start, "RESULT", result)
    monkeypatch.setattr(engine_start, "measure", measured)
    monkeypatch.setattr(sys, "argv", ["engine_start", "--starts", "3"])
    engine_start.main()
    last = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert last["ready_s"] == 30.0 and json.loads(result.read_text()) == last

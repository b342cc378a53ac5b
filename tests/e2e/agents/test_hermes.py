"""Hermes Agent 0.19.0, unmodified and in an environment of its own, works in a folder with its terminal, behind the gateway."""

import subprocess
from pathlib import Path

import psutil
import pytest

from tests.e2e import oracle
from tests.e2e.agents.recorded import Desk

pytestmark = [pytest.mark.e2e, pytest.mark.engine]

ROOT = Path(__file__).parents[3]
PROGRAM = ROOT / "examples" / "hermes" / "inbox.py"


@pytest.mark.parametrize("api_mode", ["chat_completions", "codex_responses", "anthropic_messages"])
def test_hermes_works_through_its_requests(desk: Desk, hermes_python: str, api_mode: str, tmp_path: Path) -> None:
    folder = tmp_path / "work"
    (folder / "inbox").mkdir(parents=True)
    for name in ("a.txt", "b.txt", "c.txt"):
        (folder / "inbox" / name).touch()
    key = desk.new_key(f"hermes-{api_mode}")
    where = ["--base-url", f"{desk.stack.gateway}/v1", "--api-key", key, "--model", desk.stack.model]
    done = subprocess.run(
        [hermes_python, PROGRAM, *where, "--api-mode", api_mode],
        cwd=folder, env=environment(tmp_path), capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    assert "hermes: There are 3 tickets." in done.stdout
    assert "hermes: It is noted." in done.stdout
    assert "hermes: No, that was all." in done.stdout
    assert (folder / "count.txt").read_text() == "3 tickets\n"
    ids = answers(desk, f"hermes-{api_mode}", num=5)
    events = desk.conversation(ids)
    assert events[0].session_id.startswith("s-"), "Hermes names no session, and its cache key is none"
    desk.assert_rewards_reach(ids[-1], key)
    left = [process for process in psutil.process_iter(["cwd"]) if process.info["cwd"] == str(folder)]
    assert not left, f"Hermes left {left} running"


def environment(home: Path) -> dict[str, str]:
    """A home of its own, and no way out: what is not on this machine goes to a proxy that is not there."""
    nowhere = "http://127.0.0.1:9"
    return {
        "PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": str(home), "HERMES_HOME": str(home / "hermes"),
        "HTTP_PROXY": nowhere, "HTTPS_PROXY": nowhere, "NO_PROXY": "127.0.0.1,localhost",
    }  # fmt: skip


def answers(desk: Desk, agent: str, num: int) -> list[str]:
    """The ids of all answers that the engine gave to one agent, in order."""
    query = f"SELECT event_id FROM event WHERE kind = 'model_call' AND agent = '{agent}' ORDER BY started_us"
    oracle.until(lambda: len(oracle.rows(desk.stack, query)) >= num, f"{num} calls of {agent}", desk.stack)
    event_ids = [row[0] for row in oracle.rows(desk.stack, query)]
    rids = [line.rid for line in desk.all_tapped()]
    return [next(rid for rid in rids if event_id in rid) for event_id in event_ids]

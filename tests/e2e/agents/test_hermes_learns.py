"""Several unmodified Hermes Agents work at the same time, a checker rewards what they did, and weights change below them.

The program is the example's own (`examples/hermes/shift.py`); the trainer is real, beside the stack of the other agents' tests.
"""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from atdp.samples import BatchManifest
from atdp.versions import PolicyVersion, version_index
from dataproxy.client.reward_types import AgentChange
from dataproxy.client.rewarding import RewardClient
from deploy.launcher.stack import rollback_environment
from examples.hermes import check_work
from examples.hermes.shift import DONE, prepare
from tests.e2e import oracle
from tests.e2e.agents.recorded import Desk
from tests.e2e.agents.test_hermes import PROGRAM, ROOT, environment
from tests.e2e.test_swap import serving
from workers.trainer.paths import TrainerPaths

pytestmark = [pytest.mark.e2e, pytest.mark.engine]

AGENT = "hermes-learns"
KNOWN_TICKETS = 3
TRAINER = {
    "AGENT": AGENT,
    "BATCH_TRAJECTORIES": "3",
    "COMPUTE": '{"follow_load": false, "nice": 0}',
    "COMPUTE_DTYPE": "float32",
    "KEEP_VERSIONS": "101",
    "MAX_STALENESS": "100",
    "POLL_S": "0.2",
    "PUBLISH_DTYPE": "float32",
}


def expected(folder: Path) -> float:
    """What a session must have earned: its model says three, however many there are."""
    return float(sum(1 for _ in (folder / "inbox").iterdir()) == KNOWN_TICKETS)


@pytest.fixture(scope="module")
def learning(desk: Desk, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A trainer beside the desk, for this agent's sessions alone; its log. At the end the desk serves what it served before."""
    log, paths = tmp_path_factory.mktemp("trainer") / "trainer.log", desk.stack.paths
    settings = {f"HEADRACE_TRAINER_{name}": value for name, value in TRAINER.items()}
    known = rollback_environment(paths, json.loads(paths.stack_file.read_text()))
    with log.open("wb") as output:
        command = [sys.executable, "-m", "workers.trainer"]
        trainer = subprocess.Popen(command, env=known | settings, stdout=output, stderr=subprocess.STDOUT)
    try:
        oracle.until(lambda: serving(desk.stack) >= 0 or trainer.poll() is not None, "the trainer's start", desk.stack)
        assert trainer.poll() is None, log.read_text()[-4000:]
        yield log
    finally:
        trainer.send_signal(signal.SIGTERM)
        trainer.wait()
    headrace(desk, "rollback", "v000000")


def headrace(desk: Desk, *arguments: str) -> str:
    """What a command prints."""
    where = ["--data-dir", str(desk.stack.paths.data_dir), "--config-dir", str(desk.stack.paths.config_dir)]
    done = subprocess.run([sys.executable, "-m", "deploy.cli", *arguments, *where], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def shift(desk: Desk, hermes_python: str, directory: Path, key: str, num_sessions: int, at_once: int) -> list[Path]:
    """A whole shift, by the example's own command line; the sessions' folders."""
    how = ["--sessions", str(num_sessions), "--at-once", str(at_once), "--pause-s", "0", "--delay-s", "1"]
    program = [sys.executable, "-m", "examples.hermes.shift", "--hermes", hermes_python, "--work-dir", str(directory)]
    done = subprocess.run(
        [*program, *where(desk, key), *how],
        cwd=ROOT, env=os.environ | environment(directory.parent), capture_output=True, text=True, check=False,
    )  # fmt: skip
    logs = {path.parent.name: path.read_text()[-1500:] for path in directory.glob("*/hermes.log")}
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}\n{logs}"
    assert json.loads(done.stdout.splitlines()[-1])["completed"] == num_sessions
    return sorted(path for path in directory.iterdir() if path.is_dir())


def where(desk: Desk, key: str, session: str = "") -> list[str]:
    """Where an agent's model is, as its arguments."""
    return ["--base-url", f"{desk.stack.gateway}{session}/v1", "--api-key", key, "--model", desk.stack.model]


@contextmanager
def held_open(desk: Desk, hermes_python: str, folder: Path, key: str) -> Iterator[Callable[[str, str], None]]:
    """One more session, asked by hand: gives what asks one thing and waits for the answer. It ends well, and is rewarded."""
    command = [hermes_python, str(PROGRAM), *where(desk, key, f"/s/{folder.name}"), "-"]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True, "bufsize": 1}
    with subprocess.Popen(command, cwd=folder, env=environment(folder), **pipes) as hermes:  # type: ignore[call-overload]

        def ask(request: str, expected: str) -> None:
            hermes.stdin.write(f"{request}\n")
            heard = []
            for line in hermes.stdout:
                heard.append(line)
                if line.startswith("hermes: "):
                    break
            assert heard and heard[-1] == f"hermes: {expected}\n", "".join(heard)

        try:
            yield ask
            hermes.stdin.close()
            assert hermes.wait() == 0
        finally:
            hermes.kill()
    (folder / DONE).write_text(json.dumps({"session": folder.name, "completed": True, "ended_at": time.time()}))
    check_work.main([str(folder), "--base-url", f"{desk.stack.gateway}/v1", "--api-key", key, "--delay-s", "0"])


def work(desk: Desk, hermes_python: str, directory: Path, num_sessions: int, at_once: int) -> list[Path]:
    """A shift beside one session that lasts from before it until another version serves; the folders of all."""
    key, held = key_of(desk), prepare(directory, f"held-{num_sessions}", KNOWN_TICKETS)
    with held_open(desk, hermes_python, held, key) as ask:
        before = serving(desk.stack)
        ask("How many tickets are in the folder inbox?", "There are 3 tickets.")
        folders = shift(desk, hermes_python, directory / "shift", key, num_sessions, at_once)
        oracle.until(lambda: serving(desk.stack) > before, "a version", desk.stack, timeout_s=600)
        ask("Note it in the file count.txt.", "It is noted.")
        ask("Thank you. Anything left?", "No, that was all.")
    return [held, *folders]


def completion_ids(desk: Desk, session: str) -> list[str]:
    """The ids of a session's answers, in order."""
    query = f"SELECT event_id FROM event WHERE kind = 'model_call' AND agent = '{AGENT}' AND session_id = '{session}'"
    oracle.until(lambda: len(oracle.rows(desk.stack, query)) >= 5, f"five calls of {session}", desk.stack)
    rids = [line.rid for line in desk.all_tapped()]
    stored = [row[0] for row in oracle.rows(desk.stack, f"{query} ORDER BY started_us")]
    return [next(rid for rid in rids if event_id in rid) for event_id in stored]


def check_versions(desk: Desk, completion_id: str) -> set[int]:
    """The versions that sampled an answer; each token bears the one that the engine's scheduler had then."""
    with desk.stack.client() as client:
        [record] = client.get_event(oracle.event_id(completion_id)).tokens
    versions = np.frombuffer(record.versions, "<i4").tolist()
    assert versions == [version_index(name) for name in desk.tapped(completion_id).versions]
    return set(versions)


def steps(desk: Desk) -> list[tuple[PolicyVersion, BatchManifest]]:
    """What was trained so far: each version that a step made, and what the step took."""
    with desk.stack.client() as client:
        return [(made, client.get_batch(made.batch_id)) for made in client.list_versions() if made.batch_id is not None]


def check(desk: Desk, folders: list[Path]) -> None:
    """Everything that must be true of a shift under training."""
    seen: dict[str, set[int]] = {}
    trajectories: dict[str, float] = {}
    for folder in folders:
        ids = completion_ids(desk, folder.name)
        events = desk.conversation(ids)
        assert {event.session_id for event in events} == {folder.name} and len(events) == 5
        seen[folder.name] = set().union(*(check_versions(desk, one) for one in ids))
        trajectories[events[0].trajectory_id] = expected(folder)
        assert (folder / "count.txt").read_text() == f"{KNOWN_TICKETS} tickets\n"
    assert set(trajectories.values()) == {0.0, 1.0}, "a checker that is always content teaches nothing"
    with desk.stack.client() as client:
        earned = {name: client.get_trajectory(name).reward for name in trajectories}
    assert earned == trajectories

    taken = [(made, batch) for made, batch in steps(desk) if made.state in ("serving", "retired")]
    trained = {name: value for _, batch in taken for name, value in batch.rewards.items() if name in trajectories}
    assert trained and trained.items() <= trajectories.items()
    with desk.stack.client() as client:
        checksums = {client.get_version("v000000").checksum, *(made.checksum for made, _ in taken)}
    assert len(checksums) == 1 + len(taken), "a step left the weights as they were"
    assert len(seen[folders[0].name]) >= 2, f"the session that was held open saw no swap: {seen}"
    aborted = [line["num_aborted"] for line in metrics(desk)]
    assert aborted and not any(aborted)


def metrics(desk: Desk) -> list[dict[str, Any]]:
    """One entry a step."""
    return [json.loads(line) for line in TrainerPaths(desk.stack.paths.data_dir).metrics.read_text().splitlines()]


def key_of(desk: Desk) -> str:
    """The agent's key; its sessions train as soon as the checker has spoken."""
    key = desk.new_key(AGENT)
    admin = (desk.stack.paths.config_dir / "admin.key").read_text().strip()
    with RewardClient(desk.stack.paths.socket, admin) as client:
        client.set_agent(AgentChange("acme", AGENT, settle_s=0.0, terminal="count_is_right"))
    return key


def test_hermes_works_while_what_it_did_is_learned_from(desk: Desk, hermes_python: str, learning: Path, tmp_path: Path) -> None:
    check(desk, work(desk, hermes_python, tmp_path, num_sessions=3, at_once=3))


@pytest.mark.soak
def test_a_long_shift_is_learned_from_as_well(desk: Desk, hermes_python: str, learning: Path, tmp_path: Path) -> None:
    check(desk, work(desk, hermes_python, tmp_path, num_sessions=36, at_once=4))

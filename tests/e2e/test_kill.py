"""kill -9 of gateway, data proxy and trainer at their fault points, under load: nothing that a client had in full is lost."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from deploy.launcher.running import RunningStack
from tests.chaos.rows import points_of
from tests.durability.results import keep
from tests.e2e import oracle
from tests.stack import running_stack

KILLS = {
    "gateway": points_of("gateway"),
    "dataproxy": points_of("data proxy"),
    "trainer": [points_of("trainer")[5 * at % 12] for at in range(12)],  # so that a short run has some of each stage
}
"""Each round kills all three processes, at the next of their points: 12 rounds reach every one of them."""
SHORT = 3
TRAINER = {
    "HEADRACE_TRAINER_BATCH_TRAJECTORIES": "8",
    "HEADRACE_TRAINER_COMPUTE": '{"follow_load": false, "nice": 0}',  # the load here never ends
    "HEADRACE_TRAINER_MAX_STALENESS": "100",
    "HEADRACE_TRAINER_KEEP_VERSIONS": "101",
    "HEADRACE_TRAINER_LEASE_TTL_S": "20",
    "HEADRACE_MAX_PAUSE_S": "10",
}


@contextmanager
def load(stack: RunningStack, key: str, out: Path) -> Iterator[subprocess.Popen[bytes]]:
    """The client process, ended by SIGTERM."""
    arguments = ["--base-url", f"{stack.gateway}/v1", "--key", key, "--model", stack.model, "--out", str(out), "--concurrency", "8"]
    process = subprocess.Popen([sys.executable, str(Path(__file__).parent / "load.py"), *arguments], stdout=subprocess.DEVNULL)
    try:
        yield process
    finally:
        process.terminate()
        process.wait(timeout=60)


def killed(faults: Path, point: str) -> int:
    """How many processes died at ``point`` so far."""
    log = faults / f"{point}.log"
    return log.read_text().count(" killed\n") if log.exists() else 0


def kill_at(points: list[str], faults: Path, stack: RunningStack) -> None:
    """Kill the next process that passes each of ``points``; return when all have died there."""
    wanted = {point: killed(faults, point) + 1 for point in points}
    for point in points:
        (faults / f"{point}.kill").touch()
    oracle.until(lambda: all(killed(faults, p) >= n for p, n in wanted.items()), f"a kill at each of {points}", stack)


@pytest.mark.e2e
@pytest.mark.parametrize("rounds", [pytest.param(SHORT, id="3"), pytest.param(24, id="24", marks=pytest.mark.soak)])
def test_no_answer_that_a_client_has_is_lost_or_stored_twice_by_kills_at_fault_points(tmp_path: Path, rounds: int) -> None:
    faults, received = tmp_path / "faults", tmp_path / "received.jsonl"
    faults.mkdir()
    schedule = {name: [points[number % len(points)] for number in range(rounds)] for name, points in KILLS.items()}
    with running_stack(tmp_path, environment={"HEADRACE_FAULTS": str(faults), **TRAINER}) as stack:
        key = stack.new_agent("acme", "bot", training=True, reason="durability test")
        with load(stack, key, received) as client:
            for number in range(rounds):
                points = [schedule[name][number] for name in schedule]
                kill_at(points, faults, stack)
                assert client.poll() is None
            num_answers = oracle.num_answers(received)
            trained = versions(stack)
            oracle.until(lambda: oracle.num_answers(received) > num_answers + 50, "answers after the last kill", stack)
            oracle.until(lambda: versions(stack) > trained, "a new version after the last kill", stack)
        settle(stack)
        answers, rewards = oracle.lines(received, "answer"), oracle.lines(received, "reward")
        num_versions = versions(stack)
        print(f"{len(answers)} answers, {len(rewards)} rewards, {3 * rounds} kills, {num_versions} versions")
        oracle.check_answers(stack, answers)
        oracle.check_rewards(stack, rewards)
        oracle.check_training(stack)
        check_engine(stack)
    if rounds > SHORT:
        found = {"answers": len(answers), "rewards": len(rewards), "versions": num_versions, "lost": 0, "twice": 0}
        keep("kill_9_real_engine", kills={name: rounds for name in KILLS}, **found)


def versions(stack: RunningStack) -> int:
    """How many versions are on record; survives a data proxy that is down at the moment."""
    return len(oracle.rows(stack, "SELECT DISTINCT version FROM policy_version_state WHERE state = 'serving'"))


def settle(stack: RunningStack) -> None:
    """Wait until the journal is drained and no reward is pending."""

    def drained() -> bool:
        with stack.client() as client:
            status = client.status()
        return status.journal_backlog == 0 and status.pending_rewards == 0

    oracle.until(drained, "the journal's drain", stack)


def check_engine(stack: RunningStack) -> None:
    """The engine is not paused, and serves the version on record."""

    def agrees() -> bool:
        info = httpx.get(f"{stack.engine}/model_info", timeout=30).json()
        with stack.client() as client:
            return bool(info["weight_version"] == client.serving_version().version)

    oracle.until(agrees, "agreement of engine and store on the version", stack)
    answer = httpx.post(f"{stack.engine}/generate", json={"text": "hello", "sampling_params": {"max_new_tokens": 2}}, timeout=60)
    assert answer.status_code == 200

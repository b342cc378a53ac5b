"""kill -9 of gateway and data proxy, at random moments and at their fault points, under load: nothing lost, nothing twice."""

import random
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.chaos.rows import DRAIN, GATEWAY
from tests.durability.machine import Machine, machine
from tests.durability.results import keep
from tests.e2e import load as load_module
from tests.e2e import oracle

pytestmark = [
    pytest.mark.slow,
    # httpcore leaves the socket that a data proxy between two lives refused to the collector
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]
POINTS = {"gateway": GATEWAY, "dataproxy": DRAIN}
ANSWERS_BETWEEN = 12
LONG = 100
"""From so many rounds on it is the long form, whose figures are kept."""


@contextmanager
def load(here: Machine, key: str, out: Path, concurrency: int = 8, pause_s: float = 0.0) -> Iterator[subprocess.Popen[bytes]]:
    """The client process with its own record of what it received, ended by SIGTERM."""
    out.touch()
    arguments = ["--base-url", f"{here.gateway}/v1", "--key", key, "--model", here.model, "--out", str(out)]
    command = [sys.executable, str(load_module.__file__), *arguments, "--concurrency", str(concurrency)]
    command += ["--pause-s", str(pause_s)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    try:
        yield process
    finally:
        process.terminate()
        process.wait(timeout=60)


def num_answers(received: Path) -> int:
    """How many answers the client has had in full by now."""
    return received.read_bytes().count(b'"answer"')


def wait_for_answers(here: Machine, received: Path, more: int) -> None:
    """Return once the client has had so many more."""
    wanted = num_answers(received) + more
    here.until(lambda: num_answers(received) >= wanted, f"{more} more answers")


def num_killed(faults: Path, point: str) -> int:
    """How many processes died at ``point``."""
    log = faults / f"{point}.log"
    return log.read_text().count(" killed\n") if log.exists() else 0


def kill_somewhere(here: Machine, rng: random.Random, faults: Path) -> str:
    """Kill one of both, or both; at once or at a fault point; gives what was done."""
    names = rng.choice((("gateway",), ("dataproxy",), ("gateway", "dataproxy")))
    if rng.random() < 0.5:
        for name in names:
            here.kill(name)
        return f"{'+'.join(names)} at once"
    points = [rng.choice(POINTS[name]) for name in names]
    wanted = {point: num_killed(faults, point) + 1 for point in points}
    for point in points:
        (faults / f"{point}.kill").touch()
    here.until(lambda: all(num_killed(faults, point) >= n for point, n in wanted.items()), f"a kill at {points}")
    return "+".join(points)


@pytest.mark.parametrize("rounds", [pytest.param(8, id="8"), pytest.param(200, id="200", marks=pytest.mark.soak)])
def test_no_answer_that_a_client_has_is_lost_or_stored_twice(tmp_path: Path, rounds: int) -> None:
    faults, received, rng = tmp_path / "faults", tmp_path / "received.jsonl", random.Random(rounds)
    faults.mkdir()
    with machine(tmp_path, HEADRACE_FAULTS=str(faults), HEADRACE_GATEWAY_JOURNAL_SEGMENT_BYTES="100000") as here:
        key = here.new_agent()
        done = []
        with load(here, key, received) as client:
            for _ in range(rounds):
                wait_for_answers(here, received, ANSWERS_BETWEEN)
                done.append(kill_somewhere(here, rng, faults))
                assert client.poll() is None
            wait_for_answers(here, received, ANSWERS_BETWEEN)
        here.wait_ready()
        here.settle()
        answers, rewards = oracle.lines(received, "answer"), oracle.lines(received, "reward")
        print(f"{len(answers)} answers, {len(rewards)} rewards, {len(done)} kills")
        oracle.check_answers(here, answers)  # type: ignore[arg-type]  # it asks no more of a stack than a machine has
        oracle.check_rewards(here, rewards)  # type: ignore[arg-type]
    if rounds > LONG:
        keep("kill_9", rounds=rounds, answers=len(answers), rewards=len(rewards), lost=0, twice=0)

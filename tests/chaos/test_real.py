"""Death in a whole Headrace with two real engines under load: publisher, keeper, engines at every stage of a swap."""

import signal
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from deploy.fleet import list_workers
from deploy.launcher.running import RunningStack
from tests.chaos.rows import points_of
from tests.e2e import oracle
from tests.e2e.test_fleet import (
    TRAINER,
    await_whole,
    check_engines,
    is_whole,
    kill_a_rollback,
    nobody_publishes,
    nobody_trains,
    workers,
)
from tests.e2e.test_kill import kill_at, killed, load, settle, versions
from tests.e2e.test_swap import serving
from tests.engine_fixture import start_engine
from tests.stack import running_stack
from workers.inference.client import swap_weights

pytestmark = [pytest.mark.e2e, pytest.mark.soak]


@pytest.fixture(scope="module")
def faults(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where points are armed and logged."""
    return tmp_path_factory.mktemp("faults")


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory, faults: Path) -> Iterator[RunningStack]:
    """Two workers and a trainer."""
    environment = TRAINER | {"HEADRACE_FAULTS": str(faults), "HEADRACE_TRAINER_AUDIT_EVERY_S": "600"}
    with running_stack(tmp_path_factory.mktemp("chaos"), "--workers", "2", environment=environment) as running:
        yield running


@pytest.fixture(scope="module")
def received(stack: RunningStack, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """What a client has had from the first row to the last; in the end all of it is stored once and nothing trained twice."""
    path, key = tmp_path_factory.mktemp("load") / "received.jsonl", stack.new_agent("acme", "bot", training=True, reason="chaos")
    with load(stack, key, path) as client:
        oracle.until(lambda: oracle.num_answers(path) > 20, "the first answers", stack)
        oracle.until(lambda: serving(stack) >= 1, "a first version", stack)
        yield path
        assert client.poll() is None
    settle(stack)
    answers, rewards = oracle.lines(path, "answer"), oracle.lines(path, "reward")
    oracle.check_answers(stack, answers)
    oracle.check_rewards(stack, rewards)
    oracle.check_training(stack)
    print(f"\n{len(answers)} answers, {len(rewards)} rewards, {versions(stack)} versions that served")


def goes_on(stack: RunningStack, received: Path) -> None:
    """Calls are answered, and a new version comes to serve."""
    num_answers, version = oracle.num_answers(received), serving(stack)
    oracle.until(lambda: oracle.num_answers(received) > num_answers + 20, "more answers", stack)
    oracle.until(lambda: serving(stack) > version, "another version", stack)


@pytest.mark.parametrize("point", points_of("publisher"))
def test_a_rollback_killed_anywhere_is_undone_by_the_keeper(stack: RunningStack, faults: Path, received: Path, point: str) -> None:
    seconds = kill_a_rollback(stack, faults, point)
    print(f"\n{point}: whole again {seconds:.1f} s after the rollback died")
    check_engines(stack)
    goes_on(stack, received)


@pytest.mark.parametrize("point", points_of("keeper"))
def test_a_keeper_killed_anywhere_is_followed_by_one_that_ends_the_repair(
    stack: RunningStack, faults: Path, received: Path, point: str
) -> None:
    with nobody_trains(stack), stack.client() as client:
        oracle.until(lambda: is_whole(stack), "both engines on the version on record", stack)
        base = client.get_version("v000000")
        deaths = killed(faults, point)
        (faults / f"{point}.kill").touch()
        with nobody_publishes(stack):
            swap_weights(stack.engines[1], Path(base.directory), base.version)
        oracle.until(lambda: killed(faults, point) == deaths + 1, "the keeper's death", stack)
        died = time.monotonic()
        oracle.until(lambda: is_whole(stack), "the repair", stack)
        print(f"\n{point}: whole again {time.monotonic() - died:.1f} s after the keeper died")
    check_engines(stack)
    goes_on(stack, received)


@pytest.mark.parametrize("point", points_of("engine"))
def test_an_engine_killed_anywhere_in_a_swap_comes_back_with_what_serves(
    stack: RunningStack, faults: Path, received: Path, point: str
) -> None:
    kill_at([point], faults, stack)
    died = time.monotonic()
    goes_on(stack, received)
    first_version = time.monotonic() - died
    await_whole(stack)
    print(f"\n{point}: another version after {first_version:.1f} s, whole again after {time.monotonic() - died:.1f} s")
    check_engines(stack)


def test_an_engine_that_lies_from_its_first_moment_never_serves(
    stack: RunningStack, received: Path, other_model_dir: Path, tmp_path: Path
) -> None:
    headers = {"authorization": f"Bearer {(stack.paths.config_dir / 'admin.key').read_text().strip()}"}
    with nobody_trains(stack):
        oracle.until(lambda: is_whole(stack), "both engines on the version on record", stack)
        with stack.client() as client:
            name = client.serving_version().version
        liar, url = start_engine(
            other_model_dir, tmp_path / "liar.log", {}, "--weight-version", name, "--served-model-name", stack.model
        )
        try:
            added = httpx.post(f"{stack.gateway}/v1/workers", json={"url": url}, headers=headers, timeout=60)
            assert added.status_code == 201
            oracle.until(lambda: "but its weights are others" in workers(stack)[url].refusal, "the lie's discovery", stack)
            num_answers = oracle.num_answers(received)
            oracle.until(lambda: oracle.num_answers(received) > num_answers + 50, "answers of the others", stack)
            state = httpx.get(f"{url}/headrace/engine", timeout=30).json()
            assert (state["weight_version"], state["num_received"]) == (name, 0), "it was asked something"
        finally:
            liar.send_signal(signal.SIGKILL)
            liar.wait()
        httpx.delete(f"{stack.gateway}/v1/workers/{added.json()['id']}", headers=headers, timeout=60)
        assert url not in {worker.url for worker in list_workers(stack.paths)}

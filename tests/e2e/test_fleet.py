"""Two real engines under traffic: versions roll through both, a canary has one for a share, neither serves what it must not."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import httpx
import pytest

from deploy.fleet import Worker, list_workers
from deploy.launcher.running import RunningStack
from tests.console.chrome import chromium, find_chromium, relayed, sign_in
from tests.e2e import oracle
from tests.e2e.test_kill import killed, load, settle
from tests.e2e.test_swap import serving
from tests.stack import running_stack
from tests.workers.trainer.test_orders import ends, order_by_clicks
from workers.inference.client import expected_checksum, swap_weights
from workers.inference.client.checksum import load_directory
from workers.trainer.paths import TrainerPaths
from workers.trainer.publish_lock import publish_lock

pytestmark = pytest.mark.e2e

TRAINER = {
    "HEADRACE_TRAINER_BATCH_TRAJECTORIES": "8",
    "HEADRACE_TRAINER_MAX_STALENESS": "100",
    "HEADRACE_TRAINER_KEEP_VERSIONS": "101",
    "HEADRACE_TRAINER_AUDIT_EVERY_S": "2",
    "HEADRACE_TRAINER_COMPUTE": '{"follow_load": false, "nice": 0}',
}


@pytest.fixture(scope="module")
def faults(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where fault points are armed and logged."""
    return tmp_path_factory.mktemp("faults")


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory, faults: Path) -> Iterator[RunningStack]:
    """Two workers and a trainer."""
    environment = TRAINER | {"HEADRACE_FAULTS": str(faults)}
    with running_stack(tmp_path_factory.mktemp("fleet"), "--workers", "2", environment=environment) as running:
        yield running


@pytest.fixture(scope="module")
def key(stack: RunningStack) -> str:
    """An agent's whose sessions train."""
    return stack.new_agent("acme", "bot", training=True, reason="fleet test")


@pytest.fixture
def received(stack: RunningStack, key: str, tmp_path: Path) -> Iterator[Path]:
    """What a client under load has got so far; not one of its calls may break."""
    path = tmp_path / "received.jsonl"
    with load(stack, key, path) as client:
        oracle.until(lambda: oracle.num_answers(path) > 20, "the first answers", stack)
        yield path
        assert client.poll() is None


def headrace(stack: RunningStack, *arguments: str) -> str:
    """What a command prints."""
    where = ["--data-dir", str(stack.paths.data_dir), "--config-dir", str(stack.paths.config_dir)]
    done = subprocess.run([sys.executable, "-m", "deploy.cli", *arguments, *where], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def held(stack: RunningStack) -> list[str]:
    """What the engines themselves say that they hold; "" for one that does not answer."""
    found = []
    for url in stack.engines:
        try:
            found.append(httpx.get(f"{url}/model_info", timeout=30).json()["weight_version"])
        except httpx.TransportError:
            found.append("")
    return found


def workers(stack: RunningStack) -> dict[str, Worker]:
    """The gateway's view, by URL."""
    return {worker.url: worker for worker in list_workers(stack.paths)}


def is_whole(stack: RunningStack) -> bool:
    """Both engines serve what is on record."""
    with stack.client() as client:
        wanted = client.serving_version().version
    found = workers(stack).values()
    return held(stack) == [wanted] * 2 and all(worker.health == "ready" and not worker.refusal for worker in found)


def test_versions_roll_through_both_while_every_call_is_answered(stack: RunningStack, received: Path) -> None:
    oracle.until(lambda: serving(stack) >= 3, "three versions", stack)
    answers = oracle.lines(received, "answer")
    settle(stack)
    answered = {event.m["worker"] for event in oracle.all_events(stack)}
    assert answered == set(stack.engines)
    oracle.check_answers(stack, answers)
    broken = [event.y for event in oracle.all_events(stack) if event.y["delivery"] not in ("complete", "disconnected")]
    assert not broken, f"{len(broken)} calls broke: {broken[:2]}"


def test_a_canary_serves_its_sessions_and_is_promoted(stack: RunningStack, received: Path, key: str, tmp_path: Path) -> None:
    oracle.until(lambda: serving(stack) >= 2, "two versions", stack)
    earlier = "v000001"
    assert f"{earlier} is pinned" in headrace(stack, "versions", "pin", earlier, "--reason", "compared")
    assert "is a canary: 50.0% of the sessions" in headrace(stack, "versions", "canary", earlier, "--share", "0.5")
    lanes = {worker.lane: worker.version for worker in workers(stack).values()}
    assert set(lanes) == {"stable", "canary"}
    assert json.loads(headrace(stack, "versions", "show", earlier, "--json"))["state"] == "canary"
    assert "canary" in headrace(stack, "versions", "list") and earlier not in headrace(stack, "versions", "gc", "--keep", "1")

    answers = asyncio.run(sessions(stack, key, 12))
    settle(stack)
    with stack.client() as client:
        events = {session: [client.get_event(name) for name in names] for session, names in answers.items()}
    assert {len({event.event.lane for event in of_one}) for of_one in events.values()} == {1}, "a session has one lane"
    used = {session: of_one[0].event.lane for session, of_one in events.items()}
    assert set(used.values()) == {"stable", "canary"}
    for session, of_one in events.items():
        versions = {span[0] for event in of_one for choice in event.event.m["versions"] for span in choice}
        assert (versions == {earlier}) == (used[session] == "canary"), (session, used[session], versions)

    assert f"{earlier} serves" in headrace(stack, "versions", "promote", earlier).replace("\n", " ")
    oracle.until(lambda: {worker.lane for worker in workers(stack).values()} == {"stable"}, "one lane", stack)
    await_whole(stack)
    headrace(stack, "versions", "export", earlier, str(tmp_path / "exported"))
    assert (tmp_path / "exported" / "model.safetensors").exists()
    await_whole(stack)


def test_what_an_operator_orders_by_clicks_the_engines_serve(stack: RunningStack, received: Path) -> None:
    if find_chromium() is None:
        pytest.skip("NOT TESTED: there is no Chromium on this machine; on Debian: apt-get install -y chromium chromium-driver")
    oracle.until(lambda: serving(stack) >= 1, "a version", stack)
    with stack.client() as client, relayed(stack.paths.socket) as address, chromium() as driver:
        earlier = {version.version for version in client.list_versions()}
        sign_in(driver, address, (stack.paths.config_dir / "admin.key").read_text().strip())
        driver.get(f"{address}/learning")
        assert "v000000 answers every call from then on" in order_by_clicks(driver, "Roll back to it", version="v000000")
        ends(driver, address, "done")

        def learned_from_it() -> bool:
            return any(version.parent == "v000000" for version in client.list_versions() if version.version not in earlier)

        oracle.until(learned_from_it, "a version made of the one that was ordered", stack)
    await_whole(stack)
    check_engines(stack)


@contextmanager
def nobody_trains(stack: RunningStack) -> Iterator[None]:
    """The trainer stands still, between two publications."""
    stopped: list[int] = []

    def stop() -> bool:
        if (pid := stack.pid("trainer")) is None:
            return False  # its supervisor starts it again
        try:
            os.kill(pid, signal.SIGSTOP)
        except ProcessLookupError:
            return False
        stopped.append(pid)
        return True

    with nobody_publishes(stack):
        oracle.until(stop, "a trainer to stop", stack)
    try:
        yield
    finally:
        os.kill(stopped[0], signal.SIGCONT)


def nobody_publishes(stack: RunningStack) -> AbstractContextManager[None]:
    """Trainer and keeper leave the engines alone; the keeper would end the pause of a swap that holds no lock."""
    return publish_lock(TrainerPaths(stack.paths.data_dir).publish_lock, timeout_s=600.0)


def await_whole(stack: RunningStack) -> None:
    """Return once both engines serve what is on record; with a version a second there would be hardly a moment to see it."""
    with nobody_trains(stack):
        oracle.until(lambda: is_whole(stack), "both engines on the version on record", stack)


async def sessions(stack: RunningStack, key: str, num: int) -> dict[str, list[str]]:
    """Two turns in each of so many sessions; the event ids by session."""
    found: dict[str, list[str]] = {}
    async with httpx.AsyncClient(base_url=stack.gateway, headers={"authorization": f"Bearer {key}"}, timeout=120) as client:
        for number in range(num):
            session, said = f"canary-test-{number}", [{"role": "user", "content": f"session {number}"}]
            for _ in range(2):
                body = {"model": stack.model, "messages": said, "max_tokens": 4}
                answer = await client.post("/v1/chat/completions", json=body, headers={"x-session-id": session})
                assert answer.status_code == 200
                found.setdefault(session, []).append(oracle.event_id(answer.json()["id"]))
                said = [*said, {"role": "user", "content": "go on"}]
    return found


def kill_a_rollback(stack: RunningStack, faults: Path, point: str) -> float:
    """Kill the command at ``point``; seconds until both engines serve what is on record, which is what it was."""
    where = ["--data-dir", str(stack.paths.data_dir), "--config-dir", str(stack.paths.config_dir)]
    command = [sys.executable, "-m", "deploy.cli", "rollback", "v000000", *where]
    with nobody_trains(stack):
        oracle.until(lambda: is_whole(stack), "both engines on the version on record", stack)
        before, deaths = serving(stack), killed(faults, point)
        (faults / f"{point}.kill").touch()
        done = subprocess.run(
            command, env=os.environ | {"HEADRACE_FAULTS": str(faults)}, capture_output=True, text=True, check=False
        )
        died = time.monotonic()
        assert done.returncode != 0 and killed(faults, point) == deaths + 1, done.stdout + done.stderr
        oracle.until(lambda: is_whole(stack), "the repair", stack)
        assert serving(stack) == before
        return time.monotonic() - died


def test_a_rollback_that_is_killed_before_it_goes_on_is_undone_by_the_keeper(
    stack: RunningStack, key: str, faults: Path, tmp_path: Path
) -> None:
    with load(stack, key, tmp_path / "received.jsonl"):
        oracle.until(lambda: serving(stack) >= 1, "a version to go back from", stack)
    kill_a_rollback(stack, faults, "swap.after_end")
    check_engines(stack)


def check_engines(stack: RunningStack) -> None:
    """Both hold, by their own checksum, the weights of the version on record, and sample."""
    with nobody_trains(stack), stack.client() as client:
        oracle.until(lambda: is_whole(stack), "both engines on the version on record", stack)
        record = client.serving_version()
        wanted = expected_checksum(Path(record.directory), "float32")
        for url in stack.engines:
            found = httpx.post(f"{url}/weights_checker", json={"action": "checksum"}, timeout=60).json()["per_engine_checksum"]
            assert found == wanted == record.checksum
            asked = {"text": "hello", "sampling_params": {"max_new_tokens": 2}}
            assert httpx.post(f"{url}/generate", json=asked, timeout=60).status_code == 200


@pytest.mark.soak
def test_an_engine_that_dies_gets_what_serves_before_it_serves(stack: RunningStack, received: Path) -> None:
    before, second = serving(stack), stack.engines[1]
    end_second(stack)
    oracle.until(lambda: workers(stack)[second].health == "down", "the loss of a worker", stack)
    oracle.until(lambda: serving(stack) > before, "a version without it", stack)
    await_whole(stack)


@pytest.mark.soak
def test_an_engine_that_lies_about_its_version_is_found_and_taken_out(stack: RunningStack) -> None:
    second = stack.engines[1]
    with nobody_trains(stack), stack.client() as client:
        oracle.until(lambda: is_whole(stack), "both engines on the version on record", stack)
        serves = client.serving_version()
        wrong = {name: tensor + 0.1 for name, tensor in load_directory(Path(serves.directory)).items()}
        with nobody_publishes(stack):
            swap_weights(second, wrong, serves.version)
        oracle.until(lambda: "but its weights are others" in workers(stack)[second].refusal, "the lie's discovery", stack)
        assert f"{second} gets no calls: says that it holds {serves.version}" in headrace(stack, "status").replace("\n", " ")
        end_second(stack)
        oracle.until(lambda: is_whole(stack), "its return after a restart", stack)


def end_second(stack: RunningStack) -> None:
    """kill -9 of the second engine; its supervisor starts it again."""
    pid = stack.pid("engine-2")
    assert pid is not None
    os.kill(pid, signal.SIGKILL)

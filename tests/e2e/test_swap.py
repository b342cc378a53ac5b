"""Weights change under traffic, forwards and back: nothing is aborted, every token bears the version that sampled it."""

import asyncio
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import openai
import pytest

from atdp.versions import version_index
from deploy.launcher.running import RunningStack
from tests.e2e import oracle
from tests.e2e.conftest import TappedStack
from tests.e2e.test_kill import load, settle
from tests.engine_fixture import Tapped
from tests.stack import running_stack
from workers.inference.client import EngineClient, SwapReport, expected_checksum, swap
from workers.inference.model import make_tiny

pytestmark = pytest.mark.e2e

NUM_STREAMS = 16
TRAINER = {
    "HEADRACE_TRAINER_BATCH_TRAJECTORIES": "8",
    "HEADRACE_TRAINER_COMPUTE": '{"follow_load": false, "nice": 0}',  # the load here never ends
    "HEADRACE_TRAINER_MAX_STALENESS": "100",
    "HEADRACE_TRAINER_KEEP_VERSIONS": "101",
}


async def stream(agent: openai.AsyncOpenAI, model: str, number: int, begun: asyncio.Semaphore) -> tuple[str, str | None]:
    """One long stream; releases ``begun`` at its first chunk. Its id and finish reason."""
    completion_id, finish = "", None
    messages = [{"role": "user", "content": f"stream {number}"}]
    extra = {"ignore_eos": True}
    chunks = await agent.chat.completions.create(  # type: ignore[call-overload]
        model=model, messages=messages, max_tokens=300, temperature=1.0, stream=True, extra_body=extra
    )
    async for chunk in chunks:
        if not completion_id:
            completion_id = chunk.id
            begun.release()
        finish = chunk.choices[0].finish_reason or finish
    return completion_id, finish


async def swap_under_streams(stack: RunningStack, key: str, weights: Path) -> tuple[list[tuple[str, str | None]], SwapReport]:
    """Begin the streams, swap while all of them run, and let them end; then put the first weights back."""
    begun = asyncio.Semaphore(0)
    async with (
        openai.AsyncOpenAI(base_url=f"{stack.gateway}/v1", api_key=key, max_retries=0) as agent,
        EngineClient(stack.engine) as engine,
        asyncio.TaskGroup() as group,
    ):
        streams = [group.create_task(stream(agent, stack.model, number, begun)) for number in range(NUM_STREAMS)]
        for _ in streams:
            await begun.acquire()
        report = await swap(engine, weights, "v000001")
    async with EngineClient(stack.engine) as engine:
        await swap(engine, stack.model_dir, "v000000")
    return [task.result() for task in streams], report


def test_sixteen_streams_outlive_a_swap_and_every_token_bears_the_version_that_sampled_it(
    tapped_stack: TappedStack, tmp_path: Path
) -> None:
    stack, tap = tapped_stack
    key = stack.new_agent("swapped", "bot", training=True, reason="swap test")
    ended, report = asyncio.run(swap_under_streams(stack, key, make_tiny(tmp_path / "other", seed=1)))
    assert [finish for _, finish in ended] == ["length"] * NUM_STREAMS
    assert (report.num_in_flight_before, report.num_aborted) == (NUM_STREAMS, 0)
    settle(stack)
    reference = {one.rid: one for one in (Tapped(**json.loads(line)) for line in tap.read_text().splitlines())}
    with stack.client() as client:
        for completion_id, _ in ended:
            (record,) = client.get_event(oracle.event_id(completion_id)).tokens
            versions = np.frombuffer(record.versions, "<i4").tolist()
            assert set(versions) == {0, 1}
            assert versions == [version_index(name) for name in reference[completion_id].versions]
            assert np.frombuffer(record.output_ids, "<i4").tolist() == reference[completion_id].output_ids
            assert reference[completion_id].num_scored == 0, "logprobs of what was sampled before the swap were computed again"


@pytest.mark.soak  # in every run: by two workers, in test_fleet
def test_rollback_returns_to_the_earlier_version_under_traffic(tmp_path: Path) -> None:
    received = tmp_path / "received.jsonl"
    with running_stack(tmp_path, environment=TRAINER) as stack:
        key = stack.new_agent("acme", "bot", training=True, reason="rollback test")
        with load(stack, key, received) as client:
            oracle.until(lambda: serving(stack) >= 2, "two new versions", stack)
            num_before = oracle.num_answers(received)
            where = ["--data-dir", str(stack.paths.data_dir), "--config-dir", str(stack.paths.config_dir)]
            done = subprocess.run(
                [sys.executable, "-m", "deploy.cli", "rollback", "v000001", *where], capture_output=True, text=True, check=False
            )
            assert done.returncode == 0, done.stdout + done.stderr
            oracle.until(lambda: oracle.num_answers(received) > num_before, "answers after the rollback", stack)
            check_trainer_follows(stack)
            assert client.poll() is None
        assert f"v000001 serves (checksum {expected(stack, 'v000001')})" in done.stdout.replace("\n", " ")
        settle(stack)
        answers = oracle.lines(received, "answer")
        oracle.check_answers(stack, answers)


def serving(stack: RunningStack) -> int:
    """The index of the version that serves; −1 before the trainer has registered the first."""
    found = oracle.rows(stack, "SELECT version FROM policy_version WHERE state = 'serving'")
    return version_index(found[0][0]) if found else -1


def expected(stack: RunningStack, version: str) -> str:
    """The checksum of a version's own tensors, computed here."""
    with stack.client() as client:
        return expected_checksum(Path(client.get_version(version).directory), "float32")


def check_trainer_follows(stack: RunningStack) -> None:
    """The next version that the trainer makes descends from the one that was put back, and numbers go on."""

    def child_of_the_first() -> bool:
        with stack.client() as client:
            versions = client.list_versions()
        children = [version for version in versions if version.parent == "v000001"]
        return len(children) > 1 and version_index(children[-1].version) == max(version_index(v.version) for v in versions)

    oracle.until(child_of_the_first, "a version that descends from the one put back", stack)

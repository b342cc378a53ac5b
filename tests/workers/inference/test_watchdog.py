"""A publisher that dies leaves the engine serving: the watchdog of the plug-in, in real SGLang."""

import asyncio
import os
import signal
import sys
from pathlib import Path

import pytest

from tests.engine_fixture import FIRST_VERSION, RunningEngine
from workers.inference.client import EngineClient, EngineState, expected_checksum

pytestmark = pytest.mark.engine

PUBLISHER = """
import sys
from pathlib import Path
from workers.inference.client import swap_weights
from workers.inference.client.checksum import load_directory
swap_weights(sys.argv[1], load_directory(Path(sys.argv[2])), "v000001")
"""


async def until_expired(client: EngineClient, num_expired: int) -> EngineState:
    """Wait for the watchdog; nobody calls continue here."""
    async with asyncio.timeout(120):
        while (state := await client.state()).num_pauses_expired == num_expired or state.paused:  # noqa: ASYNC110
            await asyncio.sleep(0.05)
    return state


async def test_a_pause_that_nobody_ends_ends_by_itself(sglang_engine: RunningEngine) -> None:
    async with EngineClient(sglang_engine.url) as client:
        before = (await client.state()).num_pauses_expired
        await client.pause()
        assert not await client.ready()
        state = await until_expired(client, before)
        assert (state.paused, state.update, state.weight_version) == (False, "none", FIRST_VERSION)
        assert await client.ready()


@pytest.mark.parametrize("point", ["swap.after_begin", "swap.mid_tensors", "swap.before_continue"])
async def test_a_publisher_killed_in_a_swap_leaves_the_old_weights_serving(
    sglang_engine: RunningEngine, other_model_dir: Path, tmp_path: Path, point: str
) -> None:
    (tmp_path / f"{point}.kill").touch()
    async with EngineClient(sglang_engine.url) as client:
        before = (await client.state()).num_pauses_expired
        arguments = [sys.executable, "-c", PUBLISHER, sglang_engine.url, str(other_model_dir)]
        publisher = await asyncio.create_subprocess_exec(*arguments, env={**os.environ, "HEADRACE_FAULTS": str(tmp_path)})
        assert await publisher.wait() == -signal.SIGKILL
        assert (await client.state()).paused
        state = await until_expired(client, before)
        assert (state.update, state.weight_version) == ("none", FIRST_VERSION)
        assert await client.checksum() == expected_checksum(sglang_engine.model_dir)

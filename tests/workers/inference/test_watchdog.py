"""A publisher that dies leaves the engine serving: the watchdog of the plug-in, in real SGLang."""

import asyncio
from pathlib import Path

import pytest

from tests.engine_fixture import FIRST_VERSION, RunningEngine
from workers.inference.client import EngineClient, EngineState, expected_checksum
from workers.inference.client.buckets import make_buckets
from workers.inference.client.checksum import load_directory

pytestmark = pytest.mark.engine


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


@pytest.mark.parametrize("died", ["after begin", "between buckets", "after end"])
async def test_an_update_that_nobody_finishes_is_undone(sglang_engine: RunningEngine, other_model_dir: Path, died: str) -> None:
    buckets = list(make_buckets(load_directory(other_model_dir), 4096))
    async with EngineClient(sglang_engine.url) as client:
        before = (await client.state()).num_pauses_expired
        await client.pause()
        await client.begin_update()
        if died != "after begin":
            for bucket in buckets[: 1 if died == "between buckets" else None]:
                await client.update_from_tensors(bucket.payload, "v000001")
            assert await client.checksum() != expected_checksum(sglang_engine.model_dir)
        if died == "after end":
            await client.end_update()
        state = await until_expired(client, before)
        assert (state.update, state.weight_version) == ("none", FIRST_VERSION)
        assert await client.checksum() == expected_checksum(sglang_engine.model_dir)


async def test_an_update_without_a_pause_is_undone_as_well(sglang_engine: RunningEngine, other_model_dir: Path) -> None:
    bucket = next(make_buckets(load_directory(other_model_dir)))
    async with EngineClient(sglang_engine.url) as client:
        before = (await client.state()).num_pauses_expired
        await client.begin_update()
        await client.update_from_tensors(bucket.payload, "v000001")
        await until_expired(client, before)
        async with asyncio.timeout(60):
            while (await client.state()).update != "none":  # noqa: ASYNC110  # the restore follows the alarm
                await asyncio.sleep(0.05)
        assert await client.checksum() == expected_checksum(sglang_engine.model_dir)

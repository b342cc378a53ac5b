"""Replaces an engine's weights under traffic, or leaves it as it was.

Owns the order: pause (retract: requests stay, stale KV goes) → flush → begin → weights → end → checksum → version read back →
continue → version read back. Whatever fails, the old weights go back, generation goes on, and the caller gets a typed error.
If this process dies on the way, the plug-in's watchdog does the same. Not owned: making a version, and announcing it
(the trainer's publisher). Place in the path: step 3, publish → swap.
"""

from __future__ import annotations

import asyncio
import logging
import time
from dataclasses import dataclass

from atdp import faults
from workers.inference.client.buckets import BUCKET_BYTES
from workers.inference.client.checksum import expected_checksum
from workers.inference.client.http import EngineClient, EngineState
from workers.inference.client.ways import Sender, Way, Weights, make_sender
from workers.inference.errors import ChecksumMismatch, EngineRefused, EngineUnreachable, InferenceError, SwapFailed

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class SwapReport:
    """`num_in_flight_before` requests were held, `num_aborted` of all ended by abort; times in seconds."""

    version: str
    num_in_flight_before: int
    num_aborted: int
    paused_s: float
    total_s: float
    checksum: str


def swap_weights(
    engine_url: str,
    weights: Weights,
    version: str,
    expected: str | None = None,
    way: Way | None = None,
    host: str = "127.0.0.1",
) -> SwapReport:
    """`swap` for callers without an event loop."""

    async def run() -> SwapReport:
        async with EngineClient(engine_url) as client:
            return await swap(client, weights, version, expected, way=way, host=host)

    return asyncio.run(run())


async def swap(
    client: EngineClient,
    weights: Weights,
    version: str,
    expected: str | None = None,
    bucket_bytes: int = BUCKET_BYTES,
    way: Way | None = None,
    host: str = "127.0.0.1",
) -> SwapReport:
    """Make the engine serve `weights` (a Hugging Face state dict, or a directory with safetensors) as `version`.

    `expected` is the checksum to find; computed from `weights` before the pause where the caller has none. `way` None: from the
    disk if `weights` is a directory, else through shared memory; `host` is where the engine reaches this machine, for broadcasts.
    One publisher at a time is the caller's to ensure: what an earlier one left behind, paused or half updated, is undone first.

    Raises:
        EngineUnreachable: before anything was changed.
        BroadcastFailed, SharedMemoryFailed: likewise.
        SwapFailed: the engine serves what it served before (`restored`), or cannot be reached.
        ChecksumMismatch: likewise; the engine held something else than the version.
    """
    started = time.monotonic()
    before = await settled_state(client)
    if expected is None:
        expected = expected_checksum(weights, before.dtype)
    sender = make_sender(weights, way, bucket_bytes, host)
    try:
        await sender.open(client)
        paused_s, after = await _under_pause(client, sender, version, expected, before)
    finally:
        await sender.close(client)
    return SwapReport(
        version=version,
        num_in_flight_before=before.num_in_flight,
        num_aborted=after.num_aborted - before.num_aborted,
        paused_s=paused_s,
        total_s=time.monotonic() - started,
        checksum=expected,
    )


async def settled_state(client: EngineClient) -> EngineState:
    """The state of an engine that is in nobody's hands; what an earlier publisher left behind is undone.

    Raises: SwapFailed where the engine does not record.
    """
    before = await _state(client)
    if before.paused or before.update != "none":
        await _go_back(client, before.weight_version)
        before = await _state(client)
    return before


async def _under_pause(
    client: EngineClient, sender: Sender, version: str, expected: str, before: EngineState
) -> tuple[float, EngineState]:
    """Replace the weights and go on; seconds of the pause, and the state after it."""
    paused = time.monotonic()
    try:
        await _replace(client, sender, version, expected)
        faults.point("swap.before_continue")
        await client.resume()
    except InferenceError as error:
        restored = await asyncio.shield(_go_back(client, before.weight_version))
        kind = ChecksumMismatch if isinstance(error, ChecksumMismatch) else SwapFailed
        raise kind(f"{version} is not serving: {error}", restored) from error
    except BaseException:  # cancelled or interrupted: the engine must not wait for the watchdog
        await asyncio.shield(_go_back(client, before.weight_version))
        raise
    paused_s = time.monotonic() - paused
    faults.point("swap.after_continue")
    after = await _state(client)
    if after.weight_version != version:  # the watchdog was faster than we were
        raise SwapFailed(f"{version} is not serving: the engine went back to {after.weight_version}", restored=True)
    return paused_s, after


async def _replace(client: EngineClient, sender: Sender, version: str, expected: str) -> None:
    await client.pause("retract")
    faults.point("swap.after_pause")
    await client.flush()
    await client.begin_update()
    faults.point("swap.after_begin")
    await sender.send(client, version)
    await client.end_update()
    faults.point("swap.after_end")
    found = await client.checksum()
    if found != expected:
        raise ChecksumMismatch(f"the engine holds {found}, the version is {expected}", restored=False)
    serving = await client.weight_version()
    if serving != version:
        raise SwapFailed(f"the engine says that it holds {serving}", restored=False)


async def _go_back(client: EngineClient, old_version: str) -> bool:
    """Old weights back and generation on; True where the engine says so. The watchdog is there if this fails."""
    try:
        state = await client.state()
        if state.update != "none":
            await client.restore()
        if state.paused:
            await client.resume()
        return (await client.state()).weight_version == old_version
    except (EngineRefused, EngineUnreachable) as error:
        logger.error("the engine did not go back to %s by itself: %s", old_version, error)
        return False


async def _state(client: EngineClient) -> EngineState:
    """The engine's state; refuses an engine that does not record, or that somebody else is updating."""
    state = await client.state()
    if state.missing_hooks:
        raise SwapFailed(f"the engine lacks hooks of the plug-in: {', '.join(state.missing_hooks)}", restored=True)
    return state

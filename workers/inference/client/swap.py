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
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from atdp import faults
from workers.inference.client.buckets import BUCKET_BYTES, Bucket, make_buckets
from workers.inference.client.checksum import expected_checksum, without_tied_head
from workers.inference.client.http import EngineClient, EngineState
from workers.inference.errors import ChecksumMismatch, EngineRefused, EngineUnreachable, InferenceError, SwapFailed

if TYPE_CHECKING:
    import torch

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
    engine_url: str, weights: Mapping[str, torch.Tensor] | Path, version: str, expected: str | None = None
) -> SwapReport:
    """`swap` for callers without an event loop."""

    async def run() -> SwapReport:
        async with EngineClient(engine_url) as client:
            return await swap(client, weights, version, expected)

    return asyncio.run(run())


async def swap(
    client: EngineClient,
    weights: Mapping[str, torch.Tensor] | Path,
    version: str,
    expected: str | None = None,
    bucket_bytes: int = BUCKET_BYTES,
) -> SwapReport:
    """Make the engine serve `weights` (a Hugging Face state dict, or a directory with safetensors) as `version`.

    `expected` is the checksum to find; computed from `weights` before the pause where the caller has none. One publisher at a
    time is the caller's to ensure: what an earlier one left behind, paused or half updated, is undone first.

    Raises:
        EngineUnreachable: before anything was changed.
        SwapFailed: the engine serves what it served before (`restored`), or cannot be reached.
        ChecksumMismatch: likewise; the engine held something else than the version.
    """
    started = time.monotonic()
    before = await _state(client)
    if before.paused:
        await _go_back(client, before.weight_version)
        before = await _state(client)
    if isinstance(weights, Mapping):
        weights = without_tied_head(weights)
    if expected is None:
        expected = expected_checksum(weights, before.dtype)
    source = weights if isinstance(weights, Path) else _Prepared.of(weights, bucket_bytes)
    paused = time.monotonic()
    try:
        await _replace(client, source, version, expected)
        faults.point("swap.before_continue")
        await client.resume()
    except InferenceError as error:
        restored = await asyncio.shield(_go_back(client, before.weight_version))
        kind = ChecksumMismatch if isinstance(error, ChecksumMismatch) else SwapFailed
        raise kind(f"{version} is not serving: {error}", restored) from error
    except BaseException:  # cancelled or interrupted: the engine must not wait for the watchdog
        await asyncio.shield(_go_back(client, before.weight_version))
        raise
    resumed = time.monotonic()
    after = await _state(client)
    if after.weight_version != version:  # the watchdog was faster than we were
        raise SwapFailed(f"{version} is not serving: the engine went back to {after.weight_version}", restored=True)
    return SwapReport(
        version=version,
        num_in_flight_before=before.num_in_flight,
        num_aborted=after.num_aborted - before.num_aborted,
        paused_s=resumed - paused,
        total_s=time.monotonic() - started,
        checksum=expected,
    )


@dataclass(slots=True)
class _Prepared:
    """Buckets of which the first is packed already: the imports and the shared memory it takes cost no pause."""

    first: Bucket | None
    rest: Iterator[Bucket]

    @staticmethod
    def of(weights: Mapping[str, torch.Tensor], bucket_bytes: int) -> _Prepared:
        buckets = make_buckets(weights, bucket_bytes)
        return _Prepared(next(buckets, None), buckets)


async def _replace(client: EngineClient, source: Path | _Prepared, version: str, expected: str) -> None:
    await client.pause("retract")
    await client.flush()
    await client.begin_update()
    faults.point("swap.after_begin")
    if isinstance(source, Path):
        await client.update_from_disk(source, version)
        faults.point("swap.mid_tensors")
    else:
        await _send(client, source, version)
    await client.end_update()
    found = await client.checksum()
    if found != expected:
        raise ChecksumMismatch(f"the engine holds {found}, the version is {expected}", restored=False)
    serving = await client.weight_version()
    if serving != version:
        raise SwapFailed(f"the engine says that it holds {serving}", restored=False)


async def _send(client: EngineClient, prepared: _Prepared, version: str) -> None:
    """All buckets; the last one carries the version, so that a half-sent update never bears its name."""
    bucket, prepared.first = prepared.first, None
    while bucket is not None:
        following = next(prepared.rest, None)
        await client.update_from_tensors(bucket.payload, version if following is None else None)
        faults.point("swap.mid_tensors")
        bucket = following


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

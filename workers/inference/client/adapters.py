"""Makes an engine serve a LoRA adapter beside the base weights that it holds, as a version of its own.

Nothing pauses: requests that run keep the adapter that they began with, new ones get the new one, and every token bears the version
of the one that sampled it. An engine with other base weights is brought to the right ones first, by a swap. Not owned: what the
engine does with it (`workers.inference.adapters`), full weights (`swap`). Place in the path: step 3, publish → swap.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Final

from workers.inference.client.adapter_checksum import adapter_digest, together
from workers.inference.client.checksum import expected_checksum
from workers.inference.client.http import EngineClient
from workers.inference.client.swap import SwapReport, settled_state, swap
from workers.inference.errors import ChecksumMismatch, EngineRefused, SwapFailed

_NOT_WHAT_IT_SAYS: Final = 409


@dataclass(frozen=True, slots=True)
class AdapterVersion:
    """An adapter's files (`peft`'s), and the version that it is added to with its directory of whole weights."""

    directory: Path
    base: str
    base_directory: Path

    def checksum(self, dtype: str) -> str:
        """What an engine of that dtype must report while it serves this."""
        return together(_base_checksum(self.base_directory, dtype), adapter_digest(self.directory))


async def swap_adapter(client: EngineClient, adapter: AdapterVersion, version: str, expected: str | None = None) -> SwapReport:
    """Make the engine serve `adapter` as `version`; `expected` is the checksum that it had when it served before.

    Raises:
        EngineUnreachable: before anything was changed.
        SwapFailed: the engine serves what it served before (`restored`), or the adapter's base weights alone.
        ChecksumMismatch: likewise; files or engine hold something else than the version.
    """
    started = time.monotonic()
    before = await settled_state(client)
    checksum = adapter.checksum(before.dtype)
    if expected not in (None, checksum):
        raise ChecksumMismatch(f"{version} served as {expected}, and its files are {checksum}", restored=True)
    paused_s = 0.0
    if needs_base := before.base_version != adapter.base:
        paused_s = (await swap(client, adapter.base_directory, adapter.base)).paused_s
    try:
        await client.take_adapter(version, adapter.base, adapter.directory, adapter_digest(adapter.directory))
    except EngineRefused as error:
        kind = ChecksumMismatch if error.status == _NOT_WHAT_IT_SAYS else SwapFailed
        raise kind(f"{version} is not serving: {error}", restored=not needs_base) from error
    after = await client.state()
    if after.weight_version != version:
        raise SwapFailed(f"{version} is not serving: the engine says that it holds {after.weight_version}", restored=False)
    num_aborted = after.num_aborted - before.num_aborted
    return SwapReport(version, before.num_in_flight, num_aborted, paused_s, time.monotonic() - started, checksum)


@lru_cache(maxsize=4)
def _base_checksum(directory: Path, dtype: str) -> str:
    """Of a version's directory, which never changes."""
    return expected_checksum(directory, dtype)

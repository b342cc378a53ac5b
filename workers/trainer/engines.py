"""The engines as the publisher sees them: take this version, all of you, or stay with the old one.

Owns the order among several engines. Not owned: how one engine swaps (`workers.inference.client`).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import msgspec

from workers.inference.client import EngineClient, EngineUnreachable, InferenceError, expected_checksum, swap_weights
from workers.trainer.errors import SwapFailed

if TYPE_CHECKING:
    from torch import Tensor

logger = logging.getLogger(__name__)


class SwapResult(msgspec.Struct, frozen=True):
    """`checksum` that every engine reported; `num_in_flight_before` requests were held, `num_aborted` of all ended by abort;
    `paused_s` is the longest pause."""

    checksum: str
    num_in_flight_before: int
    num_aborted: int
    paused_s: float

    def numbers(self) -> dict[str, float]:
        """All but the checksum, for metrics."""
        return {name: float(getattr(self, name)) for name in ("num_in_flight_before", "num_aborted", "paused_s")}


class Engines(Protocol):
    """What publishing needs."""

    def swap(
        self, version: str, directory: Path, weights: Mapping[str, Tensor] | None, expected: str | None, back: Path | None
    ) -> SwapResult:
        """Serve `version`: from `weights` if they are at hand, else from its `directory`; `expected` is its known checksum.

        `back` is the directory of the version that served before, for engines that took the new one when a later one did not.
        Raises: SwapFailed.
        """
        ...

    def checksum(self, directory: Path) -> str:
        """The checksum of what the engines serve, which must be the weights in `directory`.

        Raises: SwapFailed where an engine holds something else or does not answer.
        """
        ...


class EngineFleet:
    """Engines by URL. They swap one after another, so that there is no moment without service."""

    def __init__(self, urls: Sequence[str], patience_s: float = 180.0) -> None:
        self._urls = list(urls)
        self._patience_s = patience_s

    def swap(
        self, version: str, directory: Path, weights: Mapping[str, Tensor] | None, expected: str | None, back: Path | None
    ) -> SwapResult:
        """As Engines. An engine that is just starting is waited for."""
        reports, source = [], directory if weights is None else weights
        for place, url in enumerate(self._urls):
            try:
                asyncio.run(_settle(url, self._patience_s))
                reports.append(swap_weights(url, source, version, expected))
            except InferenceError as error:
                if back is not None:
                    self._put_back(self._urls[:place], back)
                raise SwapFailed(f"{url} did not take {version}: {error}") from error
        return SwapResult(
            checksum=reports[0].checksum,
            num_in_flight_before=sum(report.num_in_flight_before for report in reports),
            num_aborted=sum(report.num_aborted for report in reports),
            paused_s=max(report.paused_s for report in reports),
        )

    def _put_back(self, urls: Sequence[str], directory: Path) -> None:
        for url in urls:
            try:
                swap_weights(url, directory, directory.name)
            except InferenceError as error:
                logger.error("%s did not go back to %s: %s", url, directory.name, error)

    def checksum(self, directory: Path) -> str:
        """As Engines."""
        checksums = set()
        for url in self._urls:
            try:
                checksums.add(asyncio.run(_compare(url, directory, self._patience_s)))
            except InferenceError as error:
                raise SwapFailed(f"{url} does not say what it serves: {error}") from error
        return checksums.pop()


async def _settle(url: str, patience_s: float) -> str:
    """Wait until the engine answers, and undo an update that a dead publisher left open; gives the dtype that it serves in.

    Whoever calls holds the publish lock, so an open update is nobody's. The engine's watchdog would do the same, later.
    """
    async with EngineClient(url) as client:
        waited_s = 0.0
        while True:
            try:
                state = await client.state()
                break
            except EngineUnreachable:
                if waited_s >= patience_s:
                    raise
            await asyncio.sleep(1.0)
            waited_s += 1.0
        if state.update != "none":
            logger.warning("%s was left in an update by a publisher that died; back to %s", url, await client.restore())
        if state.paused:
            await client.resume()
        return state.dtype


async def _compare(url: str, directory: Path, patience_s: float) -> str:
    dtype = await _settle(url, patience_s)
    async with EngineClient(url) as client:
        found, wanted = await client.checksum(), expected_checksum(directory, dtype)
    if found != wanted:
        raise SwapFailed(f"{url} holds {found}, {directory} is {wanted}: start it with the model that the trainer has")
    return found

"""The engines as the publisher sees them: take this version, all of you, or stay with the old one.

Owns the order among several engines, what becomes of those that fail, and which versions a lane serves meanwhile. Not owned: how
one engine swaps (`workers.inference.client`), who they are (`fleet`), how one that is out or late comes back (`keeper`).
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

import msgspec

from atdp.versions import PolicyVersion
from workers.inference.client import Delivery, EngineClient, InferenceError, SwapReport, Way, swap, swap_adapter
from workers.trainer.engine_checks import compare, proves, settles
from workers.trainer.errors import CanaryRefused, SwapFailed
from workers.trainer.expected import adapter_of, on_record
from workers.trainer.fleet import Fleet, Lane, Out, Seat

if TYPE_CHECKING:
    from torch import Tensor

logger = logging.getLogger(__name__)

POLL_S: Final = 1.0


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


@dataclass(slots=True, frozen=True)
class Transport:
    """How weights travel (`way`), and where engines reach this machine (`host`).

    The way `adapter` leaves a version's adapter beside its base weights; a version without one travels as by `tensors`.
    """

    way: Delivery = "tensors"
    host: str = "127.0.0.1"

    async def send(self, client: EngineClient, version: PolicyVersion, weights: Mapping[str, Tensor] | None) -> SwapReport:
        """Swap one engine to `version`: from `weights` if they are at hand, else from its directory. Raises InferenceError."""
        if self.way == "adapter" and (adapter := adapter_of(version)) is not None:
            return await swap_adapter(client, adapter, version.version, on_record(version, beside=True))
        directory = Path(version.directory)
        whole: dict[Delivery, Way] = {"disk": "disk", "distributed": "distributed"}
        way = whole.get(self.way)  # None: through shared memory, and what is on the disk already is read from there
        source = directory if weights is None or way == "disk" else weights
        return await swap(client, source, version.version, on_record(version, beside=False), way=way, host=self.host)


class Engines(Protocol):
    """What publishing needs."""

    def swap(
        self, version: PolicyVersion, weights: Mapping[str, Tensor] | None, back: PolicyVersion | None, lane: Lane = "stable"
    ) -> SwapResult:
        """Make the workers of `lane` serve `version`, whose checksum must be found where it is known.

        `back` served before, for engines that took the new one when a later one did not.
        Raises: SwapFailed, FleetUnknown.
        """
        ...

    def checksum(self, directory: Path) -> str:
        """The checksum of what the engines serve, which must be the weights in `directory`.

        Raises: SwapFailed where an engine holds something else or does not answer; FleetUnknown.
        """
        ...

    def begin_canary(self, version: PolicyVersion, serving: PolicyVersion | None, share: float) -> SwapResult:
        """Let `version` serve a share of the sessions on workers of their own; if it does already, only the share changes.

        Raises: CanaryRefused where there are too few workers; SwapFailed, and then there is no canary; FleetUnknown.
        """
        ...

    def end_canary(self) -> None:
        """The canary's workers are as any other; they get no calls until they hold what serves. Raises: FleetUnknown."""
        ...


class EngineFleet:
    """The workers of a fleet. They swap one after another, so that there is no moment without service."""

    def __init__(self, fleet: Fleet, transport: Transport | None = None, patience_s: float = 180.0) -> None:
        self._fleet = fleet
        self._transport = transport or Transport()
        self._patience_s = patience_s

    def swap(
        self, version: PolicyVersion, weights: Mapping[str, Tensor] | None, back: PolicyVersion | None, lane: Lane = "stable"
    ) -> SwapResult:
        """As Engines.

        Workers that do not answer, or are out, are passed over while others are there: they get no calls until the keeper has
        brought them to what serves. Where none answers, one that is just starting is waited for.
        """
        seats = self._present(lane)
        self._fleet.serve({lane: sorted({version.version, *([back.version] if back else [])})})
        reports: list[SwapReport] = []
        for place, seat in enumerate(seats):
            try:
                reports.append(self._take(seat, version, weights))
                version = msgspec.structs.replace(version, checksum=reports[-1].checksum)
            except InferenceError as error:
                self._undo(seats[:place], seat, back, lane, f"did not take {version.version}: {error}")
                raise SwapFailed(f"{seat.url} did not take {version.version}: {error}") from error
        self._fleet.serve({lane: [version.version]})
        return SwapResult(
            checksum=reports[0].checksum,
            num_in_flight_before=sum(report.num_in_flight_before for report in reports),
            num_aborted=sum(report.num_aborted for report in reports),
            paused_s=max(report.paused_s for report in reports),
        )

    def checksum(self, directory: Path) -> str:
        """As Engines; from then on `directory`'s version is what the stable lane serves."""
        checksums = set()
        for seat in self._present("stable"):
            try:
                instance, checksum = asyncio.run(compare(seat.url, directory))
            except InferenceError as error:
                raise SwapFailed(f"{seat.url} does not say what it serves: {error}") from error
            self._prove(seat, instance)
            checksums.add(checksum)
        self._fleet.serve({"stable": [directory.name]})
        return checksums.pop()

    def begin_canary(self, version: PolicyVersion, serving: PolicyVersion | None, share: float) -> SwapResult:
        """As Engines. As many workers as the share asks for, one at least, and one at least is left for the others."""
        view = self._fleet.view()
        if not view.of_lane("canary"):
            stable = [seat for seat in view.of_lane("stable") if seat.out is None and seat.health != "down"]
            if len(stable) < 2:
                raise CanaryRefused(
                    f"a canary needs two workers and {len(stable)} is in rotation: start Headrace with `headrace up --workers 2`, "
                    "or register another one at the gateway (POST /v1/workers)"
                )
            for seat in stable[-min(max(1, round(share * len(stable))), len(stable) - 1) :]:
                self._fleet.move(seat, "canary")
        try:
            result = self.swap(version, None, serving, "canary")
        except SwapFailed:
            self.end_canary()
            raise
        self._fleet.share(round(share * 1000))
        return result

    def end_canary(self) -> None:
        """As Engines."""
        self._fleet.share(0)
        for seat in self._fleet.view().of_lane("canary"):
            self._fleet.move(seat, "stable")
        self._fleet.serve({"canary": []})

    def _take(self, seat: Seat, version: PolicyVersion, weights: Mapping[str, Tensor] | None) -> SwapReport:
        """Swap one engine, unless it holds `version` already; then it is proven. Raises InferenceError."""
        instance, report = asyncio.run(self._send(seat, version, weights))
        self._prove(seat, instance)
        return report

    async def _send(self, seat: Seat, version: PolicyVersion, weights: Mapping[str, Tensor] | None) -> tuple[str, SwapReport]:
        if version.checksum is not None and (instance := await proves(seat.url, version)) is not None:
            return instance, SwapReport(version.version, 0, 0, 0.0, 0.0, version.checksum)
        async with EngineClient(seat.url) as client:
            instance = (await client.state()).instance
            return instance, await self._transport.send(client, version, weights)

    def _prove(self, seat: Seat, instance: str) -> None:
        if seat.proven != instance:
            self._fleet.prove(seat, instance)

    def _present(self, lane: Lane) -> list[Seat]:
        """The workers of a lane that are in rotation and answer. What a dead publisher left open on them is undone."""
        waited_s = 0.0
        while True:
            seats = [seat for seat in self._fleet.view().seats if seat.lane == lane and seat.out is None]
            if present := [seat for seat in seats if asyncio.run(settles(seat.url))]:
                return present
            if waited_s >= self._patience_s:
                urls = ", ".join(seat.url for seat in seats) or "nothing in rotation"
                raise SwapFailed(f"no worker of the {lane} lane answers: {urls}")
            time.sleep(POLL_S)
            waited_s += POLL_S

    def _undo(self, taken: Sequence[Seat], failed: Seat, back: PolicyVersion | None, lane: Lane, reason: str) -> None:
        """Back to what served: the failed one leaves rotation, those that took the new version swap again.

        One that fails alone, and proves that it holds what served before, stays: without it nothing would be served.
        """
        if back is None:
            return
        lost = [failed, *(seat for seat in taken if not self._goes_back(seat, back))]
        left = [seat for seat in self._fleet.view().seats if seat.lane == lane and seat.out is None and seat.health != "down"]
        alone = {seat.url for seat in left} <= {seat.url for seat in lost}
        for seat in lost:
            instance = asyncio.run(proves(seat.url, back)) if alone else None
            if instance is None:
                self._fleet.take_out(seat, Out(reason if seat is failed else f"did not go back to {back.version}"))
            else:
                self._prove(seat, instance)
        self._fleet.serve({lane: [back.version]})

    def _goes_back(self, seat: Seat, back: PolicyVersion) -> bool:
        try:
            self._take(seat, back, None)
        except InferenceError as error:
            logger.error("%s did not go back to %s: %s", seat.url, back.version, error)
            return False
        return True

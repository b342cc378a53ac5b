"""`python -m workers.trainer.keeper`: sees to it that every worker holds the version on record for its lane, and nothing else.

Owns the rule of rotation. A worker that joins late, was restarted, or missed a swap is brought to what serves before it gets calls,
and none gets any before its weights were compared with the record.
One that failed comes back once its checksum proves what it holds. One whose weights are not those of the version that it names is
taken out until it is restarted or an operator takes it back. What a publisher that died left behind is settled. Works under the
publish lock, so never beside a publisher. Its process also carries out what people order (`orders`). Not owned: making a version
serve (`publish`). Place in the path: step 3, after the swap.
"""

from __future__ import annotations

import asyncio
import logging
import signal
import sys
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from msgspec.structs import replace
from pydantic import ValidationError

from atdp.versions import PolicyVersion
from dataproxy.client import DataProxyClientError, SyncDataProxyClient
from workers.inference.client import Delivery, EngineClient, EngineState, InferenceError
from workers.trainer.data_proxy import VersionRegister
from workers.trainer.engine_checks import settle
from workers.trainer.engines import EngineFleet, Transport
from workers.trainer.errors import PublishLockBusy, TrainerError
from workers.trainer.expected import expected
from workers.trainer.fleet import Fleet, GatewayFleet, Lane, Out, Seat, View
from workers.trainer.orders import carry_out
from workers.trainer.paths import TrainerPaths
from workers.trainer.publish import Publisher
from workers.trainer.publish_lock import publish_lock
from workers.trainer.settings import Settings

logger = logging.getLogger(__name__)

_FIRST_RETRY_S = 2.0
_LAST_RETRY_S = 60.0


@dataclass(slots=True)
class _Known:
    """A worker as it was last found: which start of it was audited and when, and when a repair that failed may be tried again."""

    instance: str = ""
    audited_at: float = 0.0
    retry_at: float = 0.0
    retry_s: float = _FIRST_RETRY_S


@dataclass(slots=True)
class Keeper:
    """One round at a time. `clock` gives seconds; `audit_every_s` lies between two looks at a worker's weights."""

    paths: TrainerPaths
    register: VersionRegister
    fleet: Fleet
    transport: Transport
    audit_every_s: float
    clock: Callable[[], float] = time.monotonic
    _known: dict[str, _Known] = field(default_factory=dict)

    def round(self) -> None:
        """Look at every worker, and see to those that need it; a publisher at work comes first.

        Raises: FleetUnknown, DataProxyClientError; nothing is left half done.
        """
        wanted = self._wanted()
        if "stable" not in wanted:
            return
        view = self.fleet.view()
        states = asyncio.run(_states(view))
        due = [seat for seat in view.seats if seat.url in states and self._is_due(seat, states[seat.url], wanted)]
        if not due and self._is_told(view, wanted):
            return
        try:
            with publish_lock(self.paths.publish_lock, timeout_s=0.0):
                wanted = self._wanted()
                self._tell(self.fleet.view(), wanted)
                for seat in self.fleet.view().seats:
                    if seat.url in {one.url for one in due}:
                        self._see_to(seat, wanted[seat.lane])
        except PublishLockBusy:
            return

    def _wanted(self) -> dict[Lane, PolicyVersion]:
        lanes: dict[str, Lane] = {"serving": "stable", "canary": "canary"}
        return {lanes[record.state]: record for record in self.register.list_versions() if record.state in lanes}

    def _is_told(self, view: View, wanted: Mapping[Lane, PolicyVersion]) -> bool:
        """Whether the gateway says of the lanes what the record does."""
        told = {lane: [record.version] for lane, record in wanted.items()}
        return view.versions == told and bool(view.of_lane("canary")) == ("canary" in wanted)

    def _tell(self, view: View, wanted: dict[Lane, PolicyVersion]) -> None:
        """Lanes as on record: workers of a canary that is none go back, a canary without workers is over."""
        canary = wanted.get("canary")
        if canary is not None and not view.of_lane("canary"):
            logger.warning("%s was a canary and has no worker any more: it is retired", canary.version)
            self.register.register_version(replace(canary, state="retired"))
            del wanted["canary"]
        if "canary" not in wanted:
            for seat in view.of_lane("canary"):
                self.fleet.move(seat, "stable")
            if view.canary_per_mille:
                self.fleet.share(0)
        lanes: tuple[Lane, Lane] = ("stable", "canary")
        self.fleet.serve({lane: [wanted[lane].version] if lane in wanted else [] for lane in lanes})

    def _is_due(self, seat: Seat, state: EngineState, wanted: Mapping[Lane, PolicyVersion]) -> bool:
        known, version = self._known.setdefault(seat.url, _Known()), wanted.get(seat.lane)
        if self.clock() < known.retry_at or _is_barred(seat, state):
            return False
        behind = version is None or state.weight_version != version.version
        unseen = known.instance != state.instance or self.clock() >= known.audited_at + self.audit_every_s
        unproven = seat.out is not None or seat.proven != state.instance
        return behind or unseen or unproven or state.paused  # paused: by a swap, or by a publisher that died

    def _see_to(self, seat: Seat, version: PolicyVersion) -> None:
        """Bring it up, or look at its weights; then in or out of rotation."""
        known = self._known[seat.url]
        try:
            state, found = asyncio.run(self._bring(seat, version))
        except InferenceError as error:
            known.retry_at, known.retry_s = self.clock() + known.retry_s, min(2 * known.retry_s, _LAST_RETRY_S)
            logger.error("%s could not be brought to %s: %s", seat.url, version.version, error)
            self.fleet.take_out(seat, Out(f"could not be brought to {version.version}: {error}"))
            return
        known.retry_at, known.retry_s = 0.0, _FIRST_RETRY_S
        known.instance, known.audited_at = state.instance, self.clock()
        if found != expected(version, found, state.dtype):
            reason = f"says that it holds {version.version}, but its weights are others (checksum {found[:12]}…)"
            logger.error("%s %s: it is out until it is restarted", seat.url, reason)
            self.fleet.take_out(seat, Out(reason, until_restart=True, instance=state.instance))
            return
        if seat.proven != state.instance:
            self.fleet.prove(seat, state.instance)
        if seat.out is not None:
            logger.info("%s holds %s: back in rotation", seat.url, version.version)
            self.fleet.take_back(seat)

    async def _bring(self, seat: Seat, version: PolicyVersion) -> tuple[EngineState, str]:
        """Swap where it says another version; its state, and the checksum of what it holds then."""
        async with EngineClient(seat.url) as client:
            state = await client.state()
            if state.update != "none" or state.paused:
                await settle(client)
                state = await client.state()
            if state.weight_version == version.version:
                return state, await client.checksum()
            logger.info("%s holds %s and %s serves: swapping", seat.url, state.weight_version, version.version)
            report = await self.transport.send(client, version, None)
            return state, report.checksum


def _is_barred(seat: Seat, state: EngineState) -> bool:
    """Whether it is out for as long as it is the one that it was."""
    return seat.out is not None and seat.out.until_restart and seat.out.instance == state.instance


async def _states(view: View) -> dict[str, EngineState]:
    """The state of each worker that answers."""

    async def ask(url: str) -> EngineState | None:
        try:
            async with EngineClient(url, timeout_s=5.0) as client:
                return await client.state()
        except InferenceError:
            return None

    found = await asyncio.gather(*(ask(seat.url) for seat in view.seats))
    return {seat.url: state for seat, state in zip(view.seats, found, strict=True) if state is not None}


def main() -> int:
    """Rounds until a signal. Gives the exit status: 0, or 2 for bad settings."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    logging.getLogger("httpx").setLevel(logging.WARNING)
    try:
        settings = Settings()  # type: ignore[call-arg]  # from the environment
    except ValidationError as error:
        print(f"the keeper's settings are wrong (HEADRACE_TRAINER_*):\n{error}", file=sys.stderr)
        return 2
    if not settings.gateway_url:
        print("the keeper needs the gateway that it works for: HEADRACE_TRAINER_GATEWAY_URL", file=sys.stderr)
        return 2
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    fleet = GatewayFleet(settings.gateway_url, settings.api_key(), patience_s=0.0)
    way: Delivery = "disk" if settings.swap == "tensors" else settings.swap  # no torch here, and no weights but the directory's
    with SyncDataProxyClient(TrainerPaths(settings.data_dir).socket, settings.api_key()) as client:
        transport = Transport(way, settings.swap_host)
        paths = TrainerPaths(settings.data_dir)
        keeper = Keeper(paths, client, fleet, transport, settings.audit_every_s)
        publisher = Publisher(paths, client, EngineFleet(fleet, transport, patience_s=0.0))
        while not stop.wait(settings.poll_s):
            try:
                carry_out(client, publisher)
                keeper.round()
            except (TrainerError, DataProxyClientError) as error:
                logger.info("not now: %s", error)
    return 0


if __name__ == "__main__":
    sys.exit(main())

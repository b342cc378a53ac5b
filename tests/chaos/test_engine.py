"""kill -9 of one of two engines at every stage of a swap: the version is taken back from all, the other serves all the while."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

from tests.chaos.outcome import CallInFlight, assert_settled
from tests.chaos.rows import points_of
from tests.chaos.versions import write
from tests.engine_fixture import free_port
from tests.forker import Forked
from tests.workers.trainer.world import SIGKILLED, World, run_world
from workers.trainer.engines import EngineFleet, Transport
from workers.trainer.errors import SwapFailed
from workers.trainer.fleet import FixedFleet
from workers.trainer.keeper import Keeper
from workers.trainer.publish import Publisher

pytestmark = pytest.mark.slow


@dataclass
class Victim:
    """An engine on a port of its own that a supervisor, here the test, starts anew."""

    world: World
    port: int
    process: Forked | None = None

    @property
    def url(self) -> str:
        """Its base URL, the same after each start."""
        return f"http://127.0.0.1:{self.port}"

    def start(self, directory: Path, version: str) -> None:
        """With the weights of ``directory``; returns once it answers."""
        weights = str(directory / "model.safetensors")
        self.process = self.world.start("tests.chaos.engine_process", weights, version, str(self.port))
        while not self._answers():
            time.sleep(0.01)

    def _answers(self) -> bool:
        try:
            return httpx.get(f"{self.url}/ready").status_code == 200
        except httpx.TransportError:
            return False


@contextmanager
def victim_in(world: World) -> Iterator[Victim]:
    """One that serves v000000, and is gone afterwards."""
    victim = Victim(world, free_port())
    victim.start(world.model, "v000000")
    yield victim
    assert victim.process is not None
    victim.process.end()


@pytest.mark.parametrize("point", points_of("engine"))
def test_an_engine_killed_anywhere_takes_the_version_back_from_all(tmp_path: Path, micro: Path, point: str) -> None:
    with run_world(tmp_path, micro) as world, world.client() as client, victim_in(world) as victim:
        fleet = FixedFleet([world.engine_url, victim.url])
        publisher = Publisher(world.paths, client, EngineFleet(fleet, patience_s=0.0))
        publisher.publish_base(world.model)
        keeper = Keeper(world.paths, client, fleet, Transport("disk"), 600.0)
        keeper.round()
        first_start = fleet.view().seats[1].proven
        call = CallInFlight(victim.url, "x" * 2000)

        world.kill_at(point)
        with pytest.raises(SwapFailed, match=victim.url):
            publisher.publish(write(world, "v000001"))
        assert victim.process is not None and victim.process.wait() == SIGKILLED
        assert not call.end().is_done and call.error, "its client is told"
        assert client.get_version("v000001").state == "failed" and [s.url for s in fleet.view().seats if s.out] == [victim.url]
        assert_settled(world.engine_url, client, "v000000")

        serving = client.serving_version()
        victim.start(Path(serving.directory), serving.version)
        assert fleet.view().seats[1].proven == first_start, "the new start has not shown anything yet"
        keeper.round()
        seat = fleet.view().seats[1]
        assert seat.out is None and seat.proven not in ("", first_start)
        publisher.publish(write(world, "v000002"))
        for url in (world.engine_url, victim.url):
            assert_settled(url, client, "v000002")

"""kill -9 of `headrace rollback`'s process and of the keeper at every stage of a swap: whole weights, and somebody ends it."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from safetensors.torch import load_file

from dataproxy.client import SyncDataProxyClient
from tests.chaos.outcome import WORDS, assert_settled, assert_whole, held_call
from tests.chaos.rows import points_of
from tests.chaos.versions import write
from tests.workers.trainer.world import SIGKILLED, World, run_world
from workers.trainer.engines import EngineFleet, Transport
from workers.trainer.fleet import FixedFleet
from workers.trainer.keeper import Keeper
from workers.trainer.publish import Publisher

pytestmark = pytest.mark.slow


@pytest.fixture
def world(tmp_path: Path, micro: Path) -> Iterator[World]:
    """v000001 serves."""
    with run_world(tmp_path, micro) as made, made.client() as client:
        publisher = Publisher(made.paths, client, EngineFleet(FixedFleet([made.engine_url])))
        publisher.publish_base(made.model)
        publisher.publish(write(made, "v000001"))
        yield made


@pytest.fixture
def client(world: World) -> Iterator[SyncDataProxyClient]:
    """The trainer's connection."""
    with world.client() as made:
        yield made


@pytest.mark.parametrize("point", points_of("publisher"))
def test_a_rollback_killed_anywhere_is_undone_by_the_keeper_and_can_be_repeated(
    world: World, client: SyncDataProxyClient, point: str
) -> None:
    keeper = Keeper(world.paths, client, FixedFleet([world.engine_url]), Transport("disk"), 600.0)
    keeper.round()
    with held_call(world) as call:
        world.kill_at(point)
        assert world.roll_back("v000000").returncode == SIGKILLED
        assert_whole(world.engine_url, client)
        keeper.round()
    assert call.is_done and call.text == WORDS
    assert_settled(world.engine_url, client, "v000001")
    again = world.roll_back("v000000")
    assert again.returncode == 0, again.stderr
    assert_settled(world.engine_url, client, "v000000")


@pytest.mark.parametrize("point", points_of("keeper"))
def test_a_keeper_killed_anywhere_is_followed_by_one_that_ends_the_repair(
    world: World, client: SyncDataProxyClient, point: str
) -> None:
    weights = world.engine.model.weights  # restarted with what served before
    weights.version, weights.tensors = "v000000", load_file(world.model / "model.safetensors")
    with held_call(world) as call:
        world.kill_at(point)
        assert world.start("tests.chaos.one_round").wait() == SIGKILLED
        assert_whole(world.engine_url, client)
        assert world.start("tests.chaos.one_round").wait() == 0, world.log.read_text()
    assert call.is_done and call.text == WORDS
    assert_settled(world.engine_url, client, "v000001")

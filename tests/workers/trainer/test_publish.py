"""Publishing against a real data proxy and fake engines with real tensors: what serves, what is on record, what never happened."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from msgspec.structs import replace
from safetensors.torch import load_file
from sqlalchemy import select

from dataproxy.client import SyncDataProxyClient
from dataproxy.store.schema import policy_version_state
from tests.workers.trainer.world import World, run_world, serve_engine
from workers.inference.client import expected_checksum
from workers.trainer.engines import EngineFleet
from workers.trainer.errors import PublishLockBusy, Superseded, SwapFailed, VersionUnavailable
from workers.trainer.fleet import FixedFleet
from workers.trainer.publish import Publisher
from workers.trainer.publish_lock import publish_lock
from workers.trainer.version_directory import TrainerState, VersionManifest, write_version


@pytest.fixture
def world(tmp_path: Path, micro: Path) -> Iterator[World]:
    """A data proxy and an engine that started with the micro model."""
    with run_world(tmp_path, micro) as made:
        yield made


@pytest.fixture
def client(world: World) -> Iterator[SyncDataProxyClient]:
    """The trainer's connection."""
    with world.client() as made:
        yield made


@pytest.fixture
def publisher(world: World, client: SyncDataProxyClient) -> Publisher:
    """One that has put v000000 on record."""
    made = Publisher(world.paths, client, EngineFleet(FixedFleet([world.engine_url])))
    made.publish_base(world.model)
    return made


def write(world: World, version: str, parent: str = "v000000", shape: tuple[int, ...] = ()) -> Path:
    weights = {name: tensor + 0.01 * int(version[1:]) for name, tensor in load_file(world.model / "model.safetensors").items()}
    if shape:
        weights["model.norm.weight"] = torch.zeros(shape)
    manifest = VersionManifest(version, parent, 1, {}, "float32", TrainerState(), metrics={"reward_mean": 0.5})
    return write_version(world.paths.versions, manifest, weights, world.paths.versions / "v000000")


def history(world: World, version: str) -> list[str]:
    query = select(policy_version_state.c.state).where(policy_version_state.c.version == version)
    return [row.state for row in world.proxy.rows(query.order_by(policy_version_state.c.position))]


def test_the_base_is_on_record_with_the_engines_own_checksum(
    world: World, publisher: Publisher, client: SyncDataProxyClient
) -> None:
    serving = client.serving_version()
    assert (serving.version, serving.checksum) == ("v000000", world.engine.model.weights.checksum())


def test_an_engine_with_other_weights_is_not_put_on_record(world: World, client: SyncDataProxyClient) -> None:
    world.engine.model.weights.tensors["model.norm.weight"] += 1
    with pytest.raises(SwapFailed, match="start it with the model"):
        Publisher(world.paths, client, EngineFleet(FixedFleet([world.engine_url]))).publish_base(world.model)
    assert client.list_versions() == []


def test_a_version_is_published_then_serves_and_its_parent_retires(
    world: World, publisher: Publisher, client: SyncDataProxyClient
) -> None:
    directory = write(world, "v000001")
    result = publisher.publish(directory)
    assert history(world, "v000001") == ["published", "serving"] and history(world, "v000000") == ["serving", "retired"]
    serving = client.serving_version()
    assert serving.checksum == result.checksum == expected_checksum(directory) == world.engine.model.weights.checksum()
    assert serving.metrics["reward_mean"] == 0.5 and serving.metrics["num_aborted"] == 0.0


def test_a_version_that_the_engine_refuses_is_failed_and_the_old_one_serves(
    world: World, publisher: Publisher, client: SyncDataProxyClient
) -> None:
    before = world.engine.model.weights.checksum()
    with pytest.raises(SwapFailed):
        publisher.publish(write(world, "v000001", shape=(3,)))
    assert history(world, "v000001") == ["published", "failed"] and client.serving_version().version == "v000000"
    assert world.engine.model.weights.checksum() == before and world.engine.model.unpaused.is_set()


def test_a_version_whose_parent_was_rolled_back_meanwhile_does_not_serve(world: World, publisher: Publisher) -> None:
    publisher.publish(write(world, "v000001"))
    late = write(world, "v000002", parent="v000001")
    publisher.make_serve("v000000")
    with pytest.raises(Superseded):
        publisher.publish(late)
    assert world.engine.model.weights.version == "v000000" and history(world, "v000002") == []


def test_a_rollback_shows_the_checksum_that_the_version_had(
    world: World, publisher: Publisher, client: SyncDataProxyClient
) -> None:
    first = publisher.publish(write(world, "v000001"))
    publisher.publish(write(world, "v000002", parent="v000001"))
    assert publisher.make_serve("v000001").checksum == first.checksum
    assert client.serving_version().checksum == first.checksum == world.engine.model.weights.checksum()
    assert history(world, "v000002") == ["published", "serving", "retired"]


def test_a_rollback_to_other_weights_than_those_that_served_is_refused(
    world: World, publisher: Publisher, client: SyncDataProxyClient
) -> None:
    publisher.publish(write(world, "v000001"))
    client.register_version(replace(client.get_version("v000000"), checksum="0" * 64))
    with pytest.raises(SwapFailed):
        publisher.make_serve("v000000")
    assert client.serving_version().version == world.engine.model.weights.version == "v000001"


def test_a_rollback_to_a_damaged_directory_touches_no_engine(world: World, publisher: Publisher) -> None:
    directory = write(world, "v000001")
    publisher.publish(directory)
    publisher.publish(write(world, "v000002", parent="v000001"))
    content = bytearray((directory / "model.safetensors").read_bytes())
    content[-1] ^= 1
    (directory / "model.safetensors").write_bytes(content)
    with pytest.raises(VersionUnavailable, match="damaged"):
        publisher.make_serve("v000001")
    assert world.engine.model.weights.version == "v000002"


def test_engines_swap_together_or_go_back(world: World, client: SyncDataProxyClient, tmp_path: Path, micro: Path) -> None:
    (tmp_path / "second").mkdir()
    second = World(tmp_path / "second", micro)
    with serve_engine(second):
        publisher = Publisher(world.paths, client, EngineFleet(FixedFleet([world.engine_url, second.engine_url])))
        publisher.publish_base(world.model)
        second.engine.model.weights.tensors["model.norm.weight"] = torch.ones(5)  # it will refuse the shape
        with pytest.raises(SwapFailed, match=second.engine_url):
            publisher.publish(write(world, "v000001"))
    second.proxy.services.database.close()
    assert world.engine.model.weights.version == "v000000" and client.serving_version().version == "v000000"
    assert world.engine.model.weights.checksum() == expected_checksum(world.model)


def test_there_is_one_publisher_at_a_time(tmp_path: Path) -> None:
    path = tmp_path / "run" / "publish.lock"
    with publish_lock(path), pytest.raises(PublishLockBusy), publish_lock(path, timeout_s=0.0):
        pass
    with publish_lock(path, timeout_s=0.0):
        pass

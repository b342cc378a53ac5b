"""A LoRA version rolls through workers as an adapter beside the weights it was trained on: fakes with the plug-in's rules."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch
from pydantic import ValidationError
from safetensors.torch import load_file

from dataproxy.client import SyncDataProxyClient
from tests.fakes.engine import FakeEngine
from tests.workers.trainer.world import World, run_world, served_engines
from workers.inference.client import is_together
from workers.trainer.adapter import Adapter, AdapterRecord, AdapterShape
from workers.trainer.engines import EngineFleet, Transport
from workers.trainer.errors import SwapFailed
from workers.trainer.fleet import FixedFleet, Seat
from workers.trainer.keeper import Keeper
from workers.trainer.policy import Policy
from workers.trainer.publish import Publisher
from workers.trainer.ranks import Ranks
from workers.trainer.settings import Settings
from workers.trainer.version_directory import TrainerState, VersionManifest, write_version

pytestmark = pytest.mark.slow

BASE = "v000000"
SHAPE = AdapterShape(2, 4.0, ("q_proj", "k_proj", "v_proj", "down_proj"))


@dataclass
class Two:
    """Two workers that serve v000000, whoever publishes to them, and their keeper."""

    world: World
    client: SyncDataProxyClient
    fleet: FixedFleet
    engines: dict[str, FakeEngine]
    publisher: Publisher
    keeper: Keeper
    policy: Policy

    def write(self, version: str, parent: str) -> Path:
        """A version directory as the trainer writes one: weights with the adapter merged in, the adapter beside them."""
        shapes = {name: value.shape for name, value in self.policy.gather_adapter().items()}
        random = torch.Generator().manual_seed(int(version[1:]))
        self.policy.load_adapter({name: torch.randn(shape, generator=random) for name, shape in shapes.items()})
        adapter = Adapter(AdapterRecord(BASE, SHAPE), self.policy.gather_adapter())
        manifest = VersionManifest(version, parent, 1, {}, "float32", TrainerState())
        versions = self.world.paths.versions
        return write_version(versions, manifest, self.policy.gather("float32"), versions / BASE, adapter)

    def held(self) -> list[tuple[str, str]]:
        """What each worker says that it serves, and on which weights."""
        return [(engine.model.version, engine.model.weights.version) for engine in self.engines.values()]


@pytest.fixture
def two(tmp_path: Path, micro: Path, ranks: Ranks) -> Iterator[Two]:
    """The keeper has looked once."""
    with run_world(tmp_path, micro) as world, served_engines(micro, 2) as engines, world.client() as client:
        fleet, transport = FixedFleet(list(engines)), Transport("adapter")
        publisher = Publisher(world.paths, client, EngineFleet(fleet, transport, patience_s=0.0))
        publisher.publish_base(world.model)
        keeper = Keeper(world.paths, client, fleet, transport, audit_every_s=1e-9)  # every round looks at every checksum
        keeper.round()
        yield Two(world, client, fleet, engines, publisher, keeper, Policy(micro, ranks, "float32", adapter=SHAPE))


def test_an_adapter_rolls_through_all_and_back_and_no_weights_are_replaced(two: Two) -> None:
    first = two.publisher.publish(two.write("v000001", BASE))
    assert is_together(first.checksum) and first.paused_s == 0.0
    two.publisher.publish(two.write("v000002", "v000001"))
    assert two.held() == [("v000002", BASE)] * 2 and two.client.serving_version().version == "v000002"
    assert two.publisher.make_serve("v000001").checksum == first.checksum
    assert two.held() == [("v000001", BASE)] * 2
    assert {engine.model.adapters.checksum() for engine in two.engines.values()} == {first.checksum}
    two.keeper.round()
    two.publisher.make_serve(BASE)
    assert two.held() == [(BASE, BASE)] * 2 and not any(seat.out for seat in two.fleet.view().seats)


def test_one_that_comes_late_or_was_started_from_merged_weights_is_in_order(two: Two, micro: Path) -> None:
    directory = two.write("v000001", BASE)
    two.publisher.publish(directory)
    started = list(two.engines.values())[1]
    started.model.adapters.serving = None
    started.model.weights.tensors = load_file(directory / "model.safetensors")
    started.model.weights.version, started.instance = "v000001", "another start"
    with served_engines(micro, 1) as late:
        (url, engine) = next(iter(late.items()))
        two.fleet._seats[url] = Seat(url, url)
        two.keeper.round()
        assert (engine.model.version, engine.model.weights.version) == ("v000001", BASE)
    assert two.held() == [("v000001", BASE), ("v000001", "v000001")]
    assert not any(seat.out for seat in two.fleet.view().seats)
    del two.fleet._seats[url]
    two.publisher.publish(two.write("v000002", "v000001"))
    assert two.held() == [("v000002", BASE)] * 2, "the one with merged weights was not given the adapter's own first"


def test_one_that_serves_another_adapter_than_it_says_is_found(two: Two) -> None:
    two.publisher.publish(two.write("v000001", BASE))
    liar_url, liar = list(two.engines.items())[1]
    liar.model.adapters.serving = ("v000001", "f" * 64)
    two.keeper.round()
    out = {seat.url: seat.out for seat in two.fleet.view().seats if seat.out}
    assert list(out) == [liar_url] and out[liar_url].until_restart


def test_a_failure_on_one_takes_the_adapter_back_from_all(two: Two) -> None:
    before = two.publisher.publish(two.write("v000001", BASE))
    last_url, last = list(two.engines.items())[1]
    last.model.weights.version = "v000009"  # another base, and one that it cannot leave
    last.model.weights.tensors["model.norm.weight"] = torch.ones(5)
    with pytest.raises(SwapFailed):
        two.publisher.publish(two.write("v000002", "v000001"))
    assert two.held()[0] == ("v000001", BASE) and two.client.serving_version().version == "v000001"
    assert next(iter(two.engines.values())).model.adapters.checksum() == before.checksum
    assert [seat.url for seat in two.fleet.view().seats if seat.out] == [last_url]
    assert two.client.get_version("v000002").state == "failed"


def test_a_damaged_adapter_touches_no_engine(two: Two) -> None:
    directory = two.write("v000001", BASE)
    two.publisher.publish(directory)
    two.publisher.publish(two.write("v000002", "v000001"))
    file = directory / "adapter" / "adapter_model.safetensors"
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes(content)
    with pytest.raises(Exception, match="damaged"):
        two.publisher.make_serve("v000001")
    assert two.held() == [("v000002", BASE)] * 2


def test_an_adapter_that_engines_cannot_hold_is_refused_when_settings_are_read() -> None:
    places = {"data_dir": Path("d"), "config_dir": Path("c"), "model_path": Path("m"), "engine_urls": ["http://e"]}
    with pytest.raises(ValidationError, match="q_proj, k_proj, v_proj"):
        Settings(**places, swap="adapter", lora_rank=4, lora_targets=["q_proj"])  # type: ignore[arg-type]
    with pytest.raises(ValidationError, match="set lora_rank"):
        Settings(**places, swap="adapter")  # type: ignore[arg-type]
    assert Settings(**places, swap="adapter", lora_rank=4).swap == "adapter"  # type: ignore[arg-type]

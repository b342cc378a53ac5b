"""A version rolls through several workers, fails on some, is tried on a share: fakes with real tensors, a real record."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from atdp.versions import PolicyVersion
from dataproxy.client import SyncDataProxyClient
from tests.fakes.engine import FakeEngine
from tests.workers.trainer.world import World, run_world, served_engines
from workers.trainer.engines import EngineFleet, Transport
from workers.trainer.errors import CanaryRefused, SwapFailed
from workers.trainer.fleet import FixedFleet, Out, Seat
from workers.trainer.keeper import Keeper
from workers.trainer.publish import Publisher
from workers.trainer.version_directory import TrainerState, VersionManifest, write_version

pytestmark = pytest.mark.slow


class Clock:
    """Seconds that move when told."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


@dataclass
class Four:
    """Four workers that serve v000000, whoever publishes to them, and their keeper."""

    world: World
    client: SyncDataProxyClient
    fleet: FixedFleet
    engines: dict[str, FakeEngine]
    publisher: Publisher
    keeper: Keeper
    clock: Clock

    def write(self, version: str, parent: str = "v000000") -> Path:
        """A version directory."""
        base = load_file(self.world.model / "model.safetensors")
        weights = {name: tensor + 0.01 * int(version[1:]) for name, tensor in base.items()}
        manifest = VersionManifest(version, parent, 1, {}, "float32", TrainerState())
        return write_version(self.world.paths.versions, manifest, weights, self.world.paths.versions / "v000000")

    def held(self) -> list[str]:
        """What each worker says it holds."""
        return [engine.model.weights.version for engine in self.engines.values()]

    def out(self) -> dict[str, Out]:
        """Who is out of rotation, and why."""
        return {seat.url: seat.out for seat in self.fleet.view().seats if seat.out}

    def url(self, place: int) -> str:
        """One worker's."""
        return list(self.engines)[place]

    def spoil(self, place: int) -> None:
        """From here on this worker refuses the shape of one tensor."""
        self.engines[self.url(place)].model.weights.tensors["model.norm.weight"] = torch.ones(5)


@pytest.fixture
def four(tmp_path: Path, micro: Path) -> Iterator[Four]:
    """The keeper has looked once."""
    with run_world(tmp_path, micro) as world, served_engines(micro, 4) as engines, world.client() as client:
        fleet, clock = FixedFleet(list(engines)), Clock()
        publisher = Publisher(world.paths, client, EngineFleet(fleet, patience_s=0.0))
        publisher.publish_base(world.model)
        keeper = Keeper(world.paths, client, fleet, Transport("disk"), 600.0, clock)
        keeper.round()
        yield Four(world, client, fleet, engines, publisher, keeper, clock)


def test_a_version_rolls_through_all_and_is_announced_once_all_have_it(four: Four) -> None:
    told: list[list[str]] = []
    serve = four.fleet.serve
    four.fleet.serve = lambda versions: (told.append(list(versions["stable"])), serve(versions))[1]  # type: ignore[method-assign]
    result = four.publisher.publish(four.write("v000001"))
    assert four.held() == ["v000001"] * 4 and told == [["v000000", "v000001"], ["v000001"]]
    assert {engine.model.weights.checksum() for engine in four.engines.values()} == {result.checksum}
    assert four.client.serving_version().version == "v000001" and not four.out()


@pytest.mark.parametrize("place", [0, 1, 3])
def test_a_failure_on_one_of_four_leaves_the_old_version_serving_and_that_one_out(four: Four, place: int) -> None:
    four.spoil(place)
    with pytest.raises(SwapFailed):
        four.publisher.publish(four.write("v000001"))
    assert four.held() == ["v000000"] * 4 and four.client.serving_version().version == "v000000"
    assert list(four.out()) == [four.url(place)] and "did not take v000001" in four.out()[four.url(place)].reason
    assert four.fleet.view().versions["stable"] == ["v000000"]
    assert four.client.get_version("v000001").state == "failed"


def test_a_failure_on_all_leaves_the_old_version_serving_on_those_that_prove_it(four: Four) -> None:
    for seat in four.fleet.view().seats[1:]:
        four.fleet.take_out(seat, Out("already out"))
    directory = four.write("v000001")
    (four.world.paths.versions / "v000001" / "model.safetensors").write_bytes(b"not weights")
    with pytest.raises(SwapFailed):
        four.publisher.publish(directory, {"model.norm.weight": torch.ones(5)})
    assert four.url(0) not in four.out() and four.held() == ["v000000"] * 4


def test_one_that_failed_comes_back_once_it_proves_what_serves(four: Four) -> None:
    healthy = four.engines[four.url(1)].model.weights.tensors.copy()
    four.spoil(1)
    with pytest.raises(SwapFailed):
        four.publisher.publish(four.write("v000001"))
    four.keeper.round()
    assert four.out()[four.url(1)].until_restart, "its weights are not v000000's: it may not come back by itself"
    four.fleet.take_back(four.fleet.view().seats[1])
    four.engines[four.url(1)].model.weights.tensors = healthy
    four.engines[four.url(1)].instance = "another start"
    four.keeper.round()
    assert not four.out()


def test_one_that_does_not_answer_is_passed_over_and_brought_up_when_it_does(tmp_path: Path, micro: Path, four: Four) -> None:
    late_url = "http://127.0.0.1:9"
    four.fleet._seats[late_url] = four.fleet.view().seats[0].__class__(late_url, late_url, health="down")
    four.publisher.publish(four.write("v000001"))
    assert four.client.serving_version().version == "v000001"
    del four.fleet._seats[late_url]
    with served_engines(micro, 1) as late:
        (url, engine) = next(iter(late.items()))
        four.fleet._seats[url] = four.fleet.view().seats[0].__class__(url, url)
        four.keeper.round()
        assert engine.model.weights.version == "v000001"
        assert engine.model.weights.checksum() == four.client.serving_version().checksum
        assert engine.model.unpaused.is_set() and not four.out()


def test_one_that_lies_about_its_version_is_found_and_stays_out_until_it_is_restarted(four: Four) -> None:
    liar = four.engines[four.url(2)]
    liar.model.weights.tensors = {name: tensor + 1 for name, tensor in liar.model.weights.tensors.items()}
    four.keeper.round()
    assert not four.out(), "between two audits nobody looks"
    four.clock.now = 601.0
    four.keeper.round()
    found = four.out()[four.url(2)]
    assert found.until_restart and "says that it holds v000000, but its weights are others" in found.reason
    four.clock.now = 602.0
    four.keeper.round()
    assert four.url(2) in four.out()
    liar.instance, liar.model.weights.tensors = "restarted", load_file(four.world.model / "model.safetensors")
    four.keeper.round()
    assert not four.out()


def test_one_that_lies_from_its_first_moment_is_found_before_it_is_proven(four: Four, micro: Path) -> None:
    assert all(seat.proven == four.engines[seat.url].instance for seat in four.fleet.view().seats)
    with served_engines(micro, 2) as late:
        for place, (url, engine) in enumerate(late.items()):
            four.fleet._seats[url] = Seat(url, url)
            if place:
                engine.model.weights.tensors = {name: tensor + 1 for name, tensor in engine.model.weights.tensors.items()}
        four.keeper.round()
        (honest, engine), (liar, _) = late.items()
        assert four.fleet._seats[honest].proven == engine.instance and list(four.out()) == [liar]
        assert four.fleet._seats[liar].proven == "" and four.out()[liar].until_restart


def test_one_that_takes_a_version_has_proven_itself(four: Four) -> None:
    restarted = four.engines[four.url(1)]
    restarted.instance = "another start"
    four.publisher.publish(four.write("v000001"))
    assert four.fleet._seats[four.url(1)].proven == "another start"


def test_one_that_says_another_version_is_brought_back_to_the_one_on_record(four: Four) -> None:
    four.publisher.publish(four.write("v000001"))
    four.engines[four.url(3)].model.weights.version = "v000099"
    four.keeper.round()
    assert four.held() == ["v000001"] * 4


def test_an_update_that_a_dead_publisher_left_open_is_undone(four: Four) -> None:
    weights = four.engines[four.url(1)].model.weights
    assert weights.begin(paused=True)[0]
    four.engines[four.url(1)].instance = "unseen"
    four.keeper.round()
    assert weights.update == "none" and not four.out()


def test_a_repair_that_fails_is_tried_again_later_and_not_at_once(four: Four) -> None:
    four.publisher.publish(four.write("v000001"))
    engine = four.engines[four.url(0)]
    good = engine.model.weights.tensors["model.norm.weight"]
    engine.model.weights.version = "v000000"
    four.spoil(0)
    four.keeper.round()
    assert "could not be brought to v000001" in four.out()[four.url(0)].reason
    engine.model.weights.tensors["model.norm.weight"] = good
    four.keeper.round()
    assert four.url(0) in four.out(), "two seconds have not passed"
    four.clock.now = 2.5
    four.keeper.round()
    assert not four.out() and four.held() == ["v000001"] * 4


def test_a_canary_serves_its_share_on_a_worker_of_its_own_and_is_promoted(four: Four) -> None:
    four.write("v000001")
    publish_without_serving(four, "v000001")
    four.publisher.begin_canary("v000001", 0.25)
    view = four.fleet.view()
    assert sorted(four.held()) == ["v000000"] * 3 + ["v000001"] and len(view.of_lane("canary")) == 1
    assert (view.canary_per_mille, view.versions) == (250, {"stable": ["v000000"], "canary": ["v000001"]})
    assert four.client.get_version("v000001").state == "canary" and four.publisher.in_use() == {"v000000", "v000001"}
    four.keeper.round()
    assert four.held().count("v000001") == 1, "the keeper knows of lanes"
    four.publisher.begin_canary("v000001", 0.5)
    assert four.fleet.view().canary_per_mille == 500
    four.publisher.make_serve("v000001")
    assert four.held() == ["v000001"] * 4 and not four.fleet.view().of_lane("canary")
    assert four.client.serving_version().version == "v000001" and four.fleet.view().canary_per_mille == 0


def test_a_canary_ends_by_a_rollback_and_is_retired(four: Four) -> None:
    publish_without_serving(four, "v000001")
    four.publisher.begin_canary("v000001", 0.1)
    four.publisher.make_serve("v000000")
    assert four.held() == ["v000000"] * 4 and four.client.get_version("v000001").state == "retired"


def test_training_goes_on_beside_a_canary(four: Four) -> None:
    publish_without_serving(four, "v000001")
    four.publisher.begin_canary("v000001", 0.1)
    four.publisher.publish(four.write("v000002"))
    assert sorted(four.held()) == ["v000001", *["v000002"] * 3]
    assert four.client.get_version("v000001").state == "canary" and four.client.serving_version().version == "v000002"


def test_a_canary_that_its_worker_refuses_is_none(four: Four) -> None:
    publish_without_serving(four, "v000001")
    four.spoil(3)
    with pytest.raises(SwapFailed):
        four.publisher.begin_canary("v000001", 0.1)
    view = four.fleet.view()
    assert not view.of_lane("canary") and view.canary_per_mille == 0 and four.held() == ["v000000"] * 4
    assert four.client.get_version("v000001").state == "published"


def test_a_canary_whose_publisher_died_on_the_way_is_none_after_a_round(four: Four) -> None:
    publish_without_serving(four, "v000001")
    four.fleet.move(four.fleet.view().seats[0], "canary")
    four.fleet.serve({"canary": ["v000001"]})
    four.fleet.share(100)
    four.keeper.round()
    view = four.fleet.view()
    assert not view.of_lane("canary") and view.canary_per_mille == 0 and view.versions == {"stable": ["v000000"], "canary": []}


def test_a_canary_needs_two_workers_and_a_version_that_does_not_serve(four: Four) -> None:
    publish_without_serving(four, "v000001")
    with pytest.raises(CanaryRefused, match="serves everybody already"):
        four.publisher.begin_canary("v000000", 0.1)
    publish_without_serving(four, "v000002")
    four.publisher.begin_canary("v000001", 0.1)
    with pytest.raises(CanaryRefused, match="v000001 is a canary; end it first"):
        four.publisher.begin_canary("v000002", 0.1)
    four.publisher.make_serve("v000000")
    for seat in four.fleet.view().seats[1:]:
        four.fleet.take_out(seat, Out("away"))
    with pytest.raises(CanaryRefused, match="a canary needs two workers and 1 is in rotation"):
        four.publisher.begin_canary("v000001", 0.1)


def publish_without_serving(four: Four, version: str) -> None:
    """A version that was made and is on record, and no engine holds."""
    directory = four.world.paths.versions / version
    if not directory.exists():
        four.write(version)
    four.client.register_version(PolicyVersion(version, "v000000", "published", 1, str(directory)))

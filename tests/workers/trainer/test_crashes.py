"""kill -9 of a real trainer at every fault point, against a real data proxy: no sample trains twice, and it goes on."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.chaos.outcome import WORDS, assert_settled, assert_trained_once, assert_whole, held_call
from tests.chaos.rows import points_of
from tests.workers.trainer.world import SIGKILLED, World, run_world, trained_by

pytestmark = pytest.mark.slow

POINTS = points_of("trainer")
MADE_BEFORE = POINTS[POINTS.index("trainer.after_publish") :]
"""Points that a version directory is complete at, so that a restart publishes it instead of training again."""


@pytest.fixture
def world(tmp_path: Path, micro: Path) -> Iterator[World]:
    """A data proxy, an engine, nothing trained yet."""
    with run_world(tmp_path, micro) as made:
        yield made


@pytest.mark.parametrize("point", POINTS)
def test_a_trainer_killed_anywhere_is_followed_by_one_that_trains_each_sample_once(world: World, point: str) -> None:
    names = world.earn(4)
    world.kill_at(point)
    with held_call(world) as call:
        assert world.train().returncode == SIGKILLED
        made = (world.paths.versions / "v000001" / "READY").stat().st_mtime_ns if point in MADE_BEFORE else None
        with world.client() as client:
            assert_whole(world.engine_url, client)
        if point == "trainer.after_lease":
            world.clock.advance(31)  # nobody knows of the lease: it returns by its deadline
        more = [] if made is None else world.earn(4, "v000001")
        done = world.train()
    assert done.returncode == 0, done.stderr[-3000:]
    assert call.is_done and call.text == WORDS

    assert trained_by(world, names) == [["v000001"]] * 4
    assert trained_by(world, more) == [["v000002"]] * len(more)
    if made is not None:
        assert (world.paths.versions / "v000001" / "READY").stat().st_mtime_ns == made
    with world.client() as client:
        assert_settled(world.engine_url, client, "v000002" if more else "v000001")
        assert_trained_once(world, client)
        assert client.status().leases == 0
    assert not world.paths.step_record.exists()


def test_a_version_whose_lease_ran_out_before_it_was_published_never_was(world: World) -> None:
    names = world.earn(4)
    world.kill_at("trainer.after_publish")
    assert world.train().returncode == SIGKILLED
    world.clock.advance(31)
    done = world.train()
    assert done.returncode == 0, done.stderr[-3000:]
    assert trained_by(world, names) == [["v000001"]] * 4
    assert "earlier run" not in done.stderr


def test_a_restart_takes_the_same_next_step_bit_for_bit(world: World, micro: Path, tmp_path: Path) -> None:
    world.earn(8)
    assert world.train(max_steps=1).returncode == 0
    assert world.train(max_steps=1).returncode == 0
    other_directory = tmp_path / "other"
    other_directory.mkdir()
    with run_world(other_directory, micro) as other:
        other.earn(8)
        assert other.train(max_steps=2).returncode == 0
        left, right = (w.paths.versions / "v000002" / "model.safetensors" for w in (world, other))
        assert left.read_bytes() == right.read_bytes()
        assert left.read_bytes() != (world.paths.versions / "v000001" / "model.safetensors").read_bytes()


def test_a_rollback_is_followed_and_numbers_go_on(world: World) -> None:
    world.earn(8)
    assert world.train(max_steps=2).returncode == 0
    rolled_back = world.roll_back("v000001")
    assert rolled_back.returncode == 0, rolled_back.stderr
    with world.client() as client:
        before = client.get_version("v000001")
        assert before.state == "serving" and before.checksum == world.engine.model.weights.checksum()
    world.earn(4, "v000001")
    done = world.train(max_steps=1)
    assert done.returncode == 0, done.stderr[-3000:]
    with world.client() as client:
        states = {version.version: (version.parent, version.state) for version in client.list_versions()}
    assert states["v000003"] == ("v000001", "serving") and states["v000002"][1] == "retired"


def test_a_rollback_to_a_version_that_is_not_there_changes_nothing(world: World) -> None:
    world.earn(4)
    assert world.train().returncode == 0
    done = world.roll_back("v000009")
    assert done.returncode == 1 and "v000009" in done.stderr and "Traceback" not in done.stderr
    assert world.engine.model.weights.version == "v000001"

"""A dry run against a real data proxy: the next batch, the reasons, the first numbers, and nothing changed."""

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from sqlalchemy import func, select

from dataproxy.store.schema import lease, lease_item
from tests.workers.trainer.world import World, run_world
from workers.trainer.coordinator import request_of
from workers.trainer.dry_run import Plan, describe, dry_run
from workers.trainer.ranks import Ranks
from workers.trainer.settings import Settings
from workers.trainer.version_directory import adopt_base


@pytest.fixture
def world(tmp_path: Path, micro: Path) -> Iterator[World]:
    """Four rewarded trajectories of v000000, and one that is too old for what serves."""
    with run_world(tmp_path, micro) as made:
        adopt_base(made.paths.versions, micro, 1)
        yield made


def settings(world: World, **changes: object) -> Settings:
    places = {"data_dir": world.paths.data_dir, "config_dir": Path("c"), "model_path": world.model, "engine_urls": ["http://e"]}
    return Settings(**(places | {"batch_trajectories": 4, "compute_dtype": "float32"} | changes))  # type: ignore[arg-type]


def plan(world: World, ranks: Ranks, forward: bool = False, **changes: object) -> Plan:
    with world.client() as client:
        return dry_run(settings(world, **changes), world.paths, client, ranks, forward)


def test_the_batch_that_a_step_would_take_is_told_and_stays_free(world: World, ranks: Ranks) -> None:
    world.earn(4)
    told = plan(world, ranks, forward=True)
    assert told.head == "v000000" and told.enough and len(told.batch) == 4 and told.skipped == {}
    assert {(item.num_turns, item.num_tokens, item.num_trained) for item in told.batch} == {(1, 10, 4)}
    assert told.numbers["reward_mean"] == pytest.approx(sum(item.reward for item in told.batch) / 4)
    assert told.numbers["num_tokens"] == 16 and told.numbers["num_compared"] == 16 and told.numbers["entropy"] > 0
    assert [row[0] for name in (lease, lease_item) for row in world.proxy.rows(select(func.count()).select_from(name))] == [0, 0]
    with world.client() as client:
        held = client.lease(request_of(settings(world), "v000000"))
    assert [sample.trajectory_id for sample in held.samples] == [item.trajectory_id for item in told.batch]


def test_what_would_be_left_out_is_told_with_its_reason(world: World, ranks: Ranks) -> None:
    world.earn(2)
    world.earn(1, version="v000003")
    told = plan(world, ranks)
    assert len(told.batch) == 2 and not told.enough and told.left_out == {"rolled_back": 1}
    lines = list(describe(told))
    assert lines[0] == "head v000000; a batch is 4 trajectories, 2 are ready: no step yet"
    assert "left out: 1 rolled_back" in lines and sum("advantage" in line and "tokens" in line for line in lines) == 2
    refused = plan(world, ranks, learning={"credit": "turns", "advantage": "rloo"}, max_staleness=1)
    assert msgspec.json.decode(msgspec.json.encode(refused), type=Plan) == refused


def test_nothing_ready_is_a_plan_too(world: World, ranks: Ranks) -> None:
    told = plan(world, ranks, forward=True)
    assert told.batch == [] and told.numbers == {} and list(describe(told))[-1] == "left out: none"

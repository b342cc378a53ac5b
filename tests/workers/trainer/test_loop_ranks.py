"""The whole trainer on two ranks, started as `headrace up --ranks 2` starts it: lease, step, publish, swap, ack, death, resume.

One rank trains on the same trajectories beside it, and what both publish must be the same.
"""

import asyncio
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from deploy.launcher.options import UpOptions
from deploy.launcher.stack import TRAINER, Endpoints, Served, child_specs
from deploy.paths import Paths
from tests.chaos.outcome import assert_settled, assert_trained_once
from tests.workers.trainer.micro import assert_same
from tests.workers.trainer.world import World, run_world, trained_by
from workers.trainer.checkpoint import checkpoints

pytestmark = pytest.mark.slow

_PATIENCE_S = 600.0
_COUNTS = ("num_tokens", "num_compared", "num_trajectories")
"""What a step tells of itself and all ranks together must have seen; as far as a step tells it."""


def command(world: World) -> list[str]:
    """The trainer's by the launcher: torchrun with two processes."""

    async def serving() -> Served:
        return Served(world.model, "v000000")

    asked = UpOptions(Paths(world.proxy.data_dir, world.proxy.data_dir.parent / "config"), num_ranks=2)
    specs = child_specs(asked, Endpoints("http://127.0.0.1:1", world.engine_url), serving, world.model)
    (trainer,) = (spec for spec in specs if spec.name == TRAINER)
    return asyncio.run(trainer.command())


@contextmanager
def two_ranks(world: World, max_steps: int) -> Iterator[subprocess.Popen[bytes]]:
    """A trainer of two ranks; what it wrote is in the world's log. It ends with the block."""
    with world.log.open("wb") as log:
        process = subprocess.Popen(command(world), env=world.environment(max_steps=max_steps), stdout=log, stderr=log)
    try:
        yield process
    finally:
        process.terminate()  # torchrun ends its ranks
        process.wait()


def until(holds: Callable[[], bool], process: subprocess.Popen[bytes], world: World) -> None:
    """Wait for what a running trainer does."""
    deadline = time.monotonic() + _PATIENCE_S
    while not holds():
        assert process.poll() is None and time.monotonic() < deadline, world.log.read_text()[-3000:]
        time.sleep(0.05)


def learn_alone(world: World) -> None:
    """Two steps, by one rank, each on four trajectories of the version that serves."""
    for version in ("v000000", "v000001"):
        world.earn(4, version)
        done = world.train(max_steps=1)
        assert done.returncode == 0, done.stderr[-3000:]


def weights(world: World, version: str) -> dict[str, torch.Tensor]:
    return load_file(world.paths.versions / version / "model.safetensors")


def counts(world: World, version: str) -> dict[str, float]:
    with world.client() as client:
        metrics = client.get_version(version).metrics
    return {name: metrics[name] for name in _COUNTS if name in metrics}


def test_two_ranks_learn_die_and_take_the_same_next_step_as_one(micro: Path, tmp_path: Path) -> None:
    for name in ("pair", "alone"):
        (tmp_path / name).mkdir()
    with run_world(tmp_path / "pair", micro) as pair, run_world(tmp_path / "alone", micro) as alone:
        learn_alone(alone)
        first = pair.earn(4)
        with two_ranks(pair, max_steps=0) as process, pair.client() as client:
            until(lambda: trained_by(pair, first) == [["v000001"]] * 4, process, pair)
            pair.kill_at("trainer.before_publish")  # the second step is computed, and nobody has seen it
            second = pair.earn(4, "v000001")
            assert process.wait(_PATIENCE_S) == 1, pair.log.read_text()[-3000:]
            assert checkpoints(pair.paths.checkpoints) == ["v000001"] and pair.paths.step_record.exists()
            assert client.serving_version().version == "v000001" and trained_by(pair, second) == [[]] * 4
        with two_ranks(pair, max_steps=1) as process:
            assert process.wait(_PATIENCE_S) == 0, pair.log.read_text()[-3000:]
        assert "resumed v000001 from its checkpoint" in pair.log.read_text()

        assert trained_by(pair, first + second) == [["v000001"]] * 4 + [["v000002"]] * 4
        with pair.client() as client:
            assert_settled(pair.engine_url, client, "v000002")
            assert_trained_once(pair, client)
            assert client.status().leases == 0
        assert not pair.paths.step_record.exists()
        for version in ("v000001", "v000002"):
            assert_same(weights(alone, version), weights(pair, version), load_file(micro / "model.safetensors"))
            assert counts(alone, version) == counts(pair, version) != {}

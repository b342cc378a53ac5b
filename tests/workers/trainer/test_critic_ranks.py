"""A value head over ranks: two learn as one does, and each goes on from either's checkpoint to the same next step."""

import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
import torch
from safetensors.torch import load_file

from tests.workers.trainer import critic_ranks
from tests.workers.trainer.critic_ranks import AGAIN, ELSEWHERE, KEPT
from tests.workers.trainer.micro import assert_same
from workers.trainer.critic import Told, read_critic
from workers.trainer.paths import TrainerPaths
from workers.trainer.ranks import Ranks

pytestmark = pytest.mark.slow


def contents(data_dir: Path, version: str) -> dict[str, torch.Tensor]:
    """Weights and critic of a version, by name."""
    directory = TrainerPaths(data_dir).versions / version
    critic = {f"critic.{name}": tensor.double() for name, tensor in read_critic(directory).items()}
    assert critic["critic.num_updates"].item() == 12  # four passes on each of three batches
    return {**load_file(directory / "model.safetensors"), **critic}


def test_two_ranks_learn_with_a_critic_as_one(micro: Path, ranks: Ranks, tmp_path: Path) -> None:
    alone, shared = tmp_path / "alone", tmp_path / "shared"
    shared.mkdir()
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    command += ["-m", "tests.workers.trainer.critic_ranks", str(micro), str(shared)]
    done = subprocess.run(command, env=os.environ | {"OMP_NUM_THREADS": "1"}, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    told = critic_ranks.run(micro, ranks, alone)
    for ours, theirs in zip(told, msgspec.json.decode((shared / "told.json").read_bytes(), type=list[Told]), strict=True):
        assert theirs.value_error == pytest.approx(ours.value_error, rel=1e-4)
        assert theirs.value_explained == pytest.approx(ours.value_explained, rel=1e-3, abs=1e-4)
    assert told[2].value_error < told[0].value_error

    start = load_file(TrainerPaths(alone).versions / "v000000" / "model.safetensors")
    assert_same(contents(alone, KEPT), contents(shared, KEPT), start)
    for data_dir in (alone, shared):
        kept, again = contents(data_dir, KEPT), contents(data_dir, AGAIN)
        assert all(torch.equal(tensor, again[name]) for name, tensor in kept.items())

    elsewhere = critic_ranks.new_learner(TrainerPaths(shared), ranks)
    elsewhere.restore("v000002")
    critic_ranks.step(elsewhere, TrainerPaths(shared), ranks, ELSEWHERE)
    assert_same(contents(shared, KEPT), contents(shared, ELSEWHERE), start)

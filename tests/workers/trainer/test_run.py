"""A real trainer process with what is off by default: adapter, evaluation, TensorBoard, rules by agent, a value head, a dry run."""

import json
from pathlib import Path

import pytest

from tests.workers.trainer.world import run_world
from workers.trainer.critic import read_critic
from workers.trainer.version_directory import read_manifest, read_scores

pytestmark = pytest.mark.slow


def test_an_adapter_is_trained_scored_and_told_of(tmp_path: Path, micro: Path) -> None:
    with run_world(tmp_path, micro) as world:
        world.earn(8)
        done = world.train(
            lora_rank=4, lora_targets='["q_proj"]', evaluate="tests.workers.trainer.scoring:count_tensors", evaluate_every=2,
            tensorboard=True, agents='{"triage": {"advantage": "gae", "credit": "both", "discount": 0.9}}',
            kl_coef=0.01, max_steps=2,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr[-3000:]
        with world.client() as client:
            serving = client.serving_version()
        directory = world.paths.versions / "v000002"
        assert serving.version == "v000002" and serving.metrics["eval_half"] == read_scores(directory)["eval_half"] == 0.5
        record = read_manifest(directory).adapter
        assert record is not None and record.base == "v000000" and (directory / "adapter" / "adapter_config.json").exists()
        lines = [json.loads(line) for line in world.paths.metrics.read_text().splitlines()]
        assert [line.get("eval_half") for line in lines] == [None, 0.5]
        assert lines[0]["kl_reference"] == 0.0 < lines[1]["kl_reference"]
        assert "headrace_trainer_steps_total 2" in world.paths.prometheus.read_text()
        assert all(line["paused_s"] > 0 and line["num_aborted"] == 0 for line in lines)
        assert all(line["value_error"] > 0 for line in lines) and read_critic(directory)["num_updates"].item() == 8
        world.earn(3, "v000002")
        would = world.dry_run()
        assert would.returncode == 0, would.stderr[-3000:]
        plan = json.loads(would.stderr.splitlines()[-1])
        assert (plan["head"], plan["enough"], len(plan["batch"])) == ("v000002", False, 3) and plan["numbers"]["num_compared"] == 12
        assert list(world.paths.tensorboard.iterdir())

"""LoRA: begins as nothing, alone learns, is merged when published, saved as peft reads it, and resumes to the same next step."""

from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM

from tests.workers.trainer.micro import PLAIN, SCHEDULE, random_rows
from workers.trainer.adapter import AdapterShape, is_adapter, read_adapter
from workers.trainer.learner import Learner
from workers.trainer.packing import pack, sort_rows
from workers.trainer.paths import TrainerPaths
from workers.trainer.policy import Policy
from workers.trainer.ranks import Ranks
from workers.trainer.settings import Settings
from workers.trainer.step import microbatches, train
from workers.trainer.version_directory import TrainerState, VersionManifest, adopt_base, read_manifest, write_version
from workers.trainer.version_keeping import collect

SHAPE = AdapterShape(4, 8.0, ("q_proj", "down_proj"))


@pytest.fixture
def paths(tmp_path: Path, micro: Path) -> TrainerPaths:
    """A data directory with v000000."""
    adopt_base(tmp_path / "versions", micro, 1)
    return TrainerPaths(tmp_path)


def learner(paths: TrainerPaths, ranks: Ranks, **changes: object) -> Learner:
    values = {
        "data_dir": paths.data_dir, "config_dir": Path("c"), "model_path": Path("m"), "engine_urls": ["http://e"],
        "compute_dtype": "float32", "publish_dtype": "float32", "train_layers": 0, "learning_rate": 0.01,
        "lora_rank": 4, "lora_alpha": 8.0, "lora_targets": ["q_proj", "down_proj"], "checkpoint_every": 1,
    }  # fmt: skip
    return Learner(Settings(**(values | changes)), paths, ranks)  # type: ignore[arg-type]


def step(learner: Learner, paths: TrainerPaths, ranks: Ranks, version: str) -> None:
    """Train and write a version, as the loop does; seeds by the version's number."""
    parent = learner.version
    batches = microbatches(random_rows(int(version[1:])), ranks, 1000)
    train(learner.policy, learner.optimizer, [batches], PLAIN, SCHEDULE, learner.state.updates, ranks)
    state = TrainerState(learner.state.steps + 1, learner.state.updates + 1)
    manifest = VersionManifest(version, parent, 1, {}, "float32", state)
    assets = paths.versions / "v000000"
    write_version(paths.versions, manifest, learner.policy.gather("float32"), assets, learner.adapter())
    learner.version, learner.state = version, state


def logits(model: torch.nn.Module) -> torch.Tensor:
    with torch.no_grad():
        found: torch.Tensor = model(input_ids=torch.arange(3, 20)[None]).logits
    return found


def test_a_new_adapter_changes_nothing_and_alone_learns(micro: Path, ranks: Ranks) -> None:
    plain, adapted = Policy(micro, ranks, "float32"), Policy(micro, ranks, "float32", adapter=SHAPE)
    batch = pack(sort_rows(random_rows(1)))
    assert torch.equal(plain.logprobs(batch)[0], adapted.logprobs(batch)[0])
    names = {name for name, parameter in adapted.parameters() if parameter.requires_grad}
    assert len(names) == 2 * 2 * 2 and all(is_adapter(name) for name in names)
    only_last = Policy(micro, ranks, "float32", adapter=AdapterShape(4, 8.0, ("q_proj",), num_layers=1))
    assert {name.split(".")[2] for name, p in only_last.parameters() if p.requires_grad} == {"1"}


def test_a_version_is_the_base_with_the_adapter_merged_in_and_peft_reads_what_is_beside_it(
    paths: TrainerPaths, ranks: Ranks
) -> None:
    from peft import PeftModel

    made = learner(paths, ranks)
    step(made, paths, ranks, "v000001")
    directory, batch = paths.versions / "v000001", pack(sort_rows(random_rows(7)))
    record = read_manifest(directory).adapter
    assert record is not None and record.base == "v000000" and record.shape == SHAPE
    merged = Policy(directory, ranks, "float32").logprobs(batch)[0]
    assert torch.allclose(merged, made.policy.logprobs(batch)[0], atol=1e-5)
    assert not torch.allclose(merged, Policy(paths.versions / "v000000", ranks, "float32").logprobs(batch)[0], atol=1e-2)
    base = AutoModelForCausalLM.from_pretrained(paths.versions / "v000000", dtype=torch.float32)
    whole = AutoModelForCausalLM.from_pretrained(directory, dtype=torch.float32)
    assert torch.allclose(logits(PeftModel.from_pretrained(base, directory / "adapter")), logits(whole), atol=1e-5)


def test_a_restart_takes_the_same_next_step_with_and_without_its_checkpoint(paths: TrainerPaths, ranks: Ranks) -> None:
    first = learner(paths, ranks)
    step(first, paths, ranks, "v000001")
    first.save()
    resumed = learner(paths, ranks)
    resumed.restore("v000001")
    for one, name in ((first, "v000002"), (resumed, "v000003")):
        train(one.policy, one.optimizer, [microbatches(random_rows(9), ranks, 1000)], PLAIN, SCHEDULE, one.state.updates, ranks)
        one.version = name
    left, right = first.policy.gather_adapter(), resumed.policy.gather_adapter()
    assert left.keys() == right.keys() and all(torch.equal(left[name], right[name]) for name in left)
    again = learner(paths, ranks, lora_alpha=8.0, keep_checkpoints=1)
    for saved in (paths.checkpoints_of(SHAPE.name) / "v000001").rglob("*"):
        saved.unlink()
    (paths.checkpoints_of(SHAPE.name) / "v000001").rmdir()
    again.restore("v000001")
    kept = read_adapter(paths.versions / "v000001")
    assert all(torch.equal(value, kept[name]) for name, value in again.policy.gather_adapter().items())
    assert again.state.updates == 0 and not again.optimizer.state


def test_another_shape_begins_anew_on_the_merged_weights_and_full_weights_go_on_from_them(
    paths: TrainerPaths, ranks: Ranks
) -> None:
    step(learner(paths, ranks), paths, ranks, "v000001")
    batch = pack(sort_rows(random_rows(7)))
    merged = Policy(paths.versions / "v000001", ranks, "float32").logprobs(batch)[0]
    for changes in ({"lora_rank": 2}, {"lora_rank": 0}):
        other = learner(paths, ranks, **changes)
        other.restore("v000001")
        assert torch.equal(other.policy.logprobs(batch)[0], merged)
    other = learner(paths, ranks, lora_rank=2)
    other.restore("v000001")
    step(other, paths, ranks, "v000002")
    record = read_manifest(paths.versions / "v000002").adapter
    assert record is not None and record.base == "v000001"


def test_the_version_that_an_adapter_is_added_to_is_not_collected(paths: TrainerPaths, ranks: Ranks) -> None:
    step(learner(paths, ranks), paths, ranks, "v000001")
    other = learner(paths, ranks, lora_rank=2)
    other.restore("v000001")
    for index in (2, 3, 4):
        step(other, paths, ranks, f"v00000{index}")
    assert collect(paths.versions, "v000004", keep=1, serving=set()) == ["v000002", "v000003"]
    other.restore("v000004")

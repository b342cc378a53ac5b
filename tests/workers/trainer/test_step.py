"""A step on real FSDP2: prefix trees, accumulation, masks and ranks change nothing about the gradient."""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM

from tests.workers.trainer.micro import PLAIN, SCHEDULE, make_micro, random_rows, row, sample, sequence
from tests.workers.trainer.two_ranks import SHAPE
from workers.trainer.credit import PerTurn
from workers.trainer.loss import decoupled_ppo, k3
from workers.trainer.packing import group, pack, sort_rows
from workers.trainer.policy import Policy
from workers.trainer.ranks import Ranks
from workers.trainer.rows import Row, build_rows
from workers.trainer.statistics import summary
from workers.trainer.step import Schedule, make_optimizer, microbatches, train

STILL = Schedule(learning_rate=1e-30, warmup_steps=1, max_grad_norm=1e9)


def trained(micro: Path, ranks: Ranks, rows: Sequence[Row], max_nodes: int = 10_000, **options: int) -> dict[str, torch.Tensor]:
    """The weights after one step."""
    policy = Policy(micro, ranks, "float32", **options)
    optimizer = make_optimizer(policy, 1e-2, 0.0)
    train(policy, optimizer, [microbatches(rows, ranks, max_nodes)], PLAIN, SCHEDULE, 0, ranks)
    return dict(policy.gather("float32"))


def gradients(micro: Path, ranks: Ranks, rows: Sequence[Row], max_nodes: int = 10_000, **options: int) -> torch.Tensor:
    """The whole gradient, flat."""
    policy = Policy(micro, ranks, "float32", **options)
    for place, batch in enumerate(batches := microbatches(rows, ranks, max_nodes)):
        policy.synchronise_gradients(last=place == len(batches) - 1)
        logprobs, _ = policy.logprobs(batch)
        args = (batch.behaviour, batch.advantages, batch.weights, PLAIN)
        decoupled_ppo(logprobs, logprobs.detach(), *args).loss.backward()
    return torch.cat([p.grad.full_tensor().flatten() for _, p in policy.parameters()])


def reference_gradients(micro: Path, rows: Sequence[Row]) -> torch.Tensor:
    """The same by the plain model, one row at a time, without FSDP, trees or our attention."""
    model = AutoModelForCausalLM.from_pretrained(micro, dtype=torch.float32)
    for item in rows:
        ids = torch.tensor(item.token_ids).long()
        logits = model(ids[None]).logits[0, :-1] / item.temperature
        mask = torch.tensor(item.trained)
        logprobs = torch.log_softmax(logits, -1)[torch.arange(len(ids) - 1), ids[1:]][mask[1:]]
        behaviour = torch.tensor(item.behaviour)[mask]
        same = torch.tensor(item.advantages)[mask], torch.full_like(behaviour, item.weight)
        decoupled_ppo(logprobs, logprobs.detach(), behaviour, *same, PLAIN).loss.backward()
    return torch.cat([p.grad.flatten() for p in model.parameters()])


def assert_close(left: torch.Tensor, right: torch.Tensor) -> None:
    assert torch.linalg.vector_norm(left - right) <= 1e-5 * torch.linalg.vector_norm(right)


def test_the_gradient_is_that_of_the_plain_model_row_by_row(micro: Path, ranks: Ranks) -> None:
    rows = [*random_rows(1), *random_rows(2, 3), row([9, 9, 9, 9], [1, 3], 2.0, temperature=0.6)]
    assert_close(gradients(micro, ranks, rows), reference_gradients(micro, rows))


def test_rows_that_share_a_beginning_share_its_nodes() -> None:
    rows = sort_rows([row([1, 2, 3, 4, 5], [4]), row([1, 2, 3, 4, 6], [4]), row([1, 2, 7, 8], [3])])
    batch = pack(rows)
    assert batch.token_ids.shape[1] == 5 and batch.positions[0].tolist() == [0, 1, 2, 3, 2]
    assert len(batch.predictors) == 2 and len(batch.targets) == 3  # the first two rows sample from the same place
    assert [len(part) for part in group(rows, 4)] == [2, 1]


def test_one_place_under_two_temperatures_is_two_distributions(micro: Path, ranks: Ranks) -> None:
    rows = [row([1, 2, 3], [2], 1.0), row([1, 2, 3], [2], 1.0, temperature=0.5)]
    assert len(pack(sort_rows(rows)).predictors) == 2
    assert_close(gradients(micro, ranks, rows), reference_gradients(micro, rows))


@pytest.mark.parametrize("max_nodes", [1, 12, 25])
def test_accumulated_microbatches_are_one_big_batch(micro: Path, ranks: Ranks, max_nodes: int) -> None:
    rows = random_rows(1)
    assert len(microbatches(rows, ranks, max_nodes)) > 1
    assert_close(gradients(micro, ranks, rows, max_nodes), gradients(micro, ranks, rows))


def test_recomputed_activations_give_the_same_gradient(micro: Path, ranks: Ranks) -> None:
    rows = random_rows(1)
    assert_close(gradients(micro, ranks, rows, 20, checkpoint_activations=True), gradients(micro, ranks, rows))


@pytest.mark.parametrize(("recomputes", "forwards"), [(False, 1), (True, 2)])
def test_activations_are_kept_or_computed_twice(micro: Path, ranks: Ranks, recomputes: bool, forwards: int) -> None:
    policy, seen = Policy(micro, ranks, "float32", checkpoint_activations=recomputes), []
    for layer in policy.model.model.layers:
        layer.mlp.register_forward_pre_hook(lambda *_: seen.append(1))  # a recomputation stops before the end
    batches = microbatches(random_rows(1), ranks, 20)
    train(policy, make_optimizer(policy, 1e-2, 0.0), [batches], PLAIN, STILL, 0, ranks)
    assert len(seen) == forwards * len(batches) * len(policy.model.model.layers)


def test_an_overwritten_token_gets_exactly_no_gradient(micro: Path, ranks: Ranks) -> None:
    def gradient(overwritten: int) -> torch.Tensor:
        item = sequence([5, 6, 7, 8, overwritten], [2, 4], altered=[4])
        return gradients(micro, ranks, build_rows([sample("a", [item])], [PerTurn(1.0)], 0))

    assert torch.equal(gradient(16), gradient(99)) and gradient(16).abs().max() > 0
    context = build_rows([sample("a", [sequence([5, 6, 16, 8], [2, 3], altered=[2])])], [PerTurn(1.0)], 0)
    assert pack(context).targets.tolist() == [8]


def test_a_trajectory_without_advantage_moves_nothing(micro: Path, ranks: Ranks) -> None:
    assert torch.equal(gradients(micro, ranks, [row([5, 6, 7], [2], 0.0)]).abs().max(), torch.tensor(0.0))


def test_bfloat16_computes_about_the_same_gradient_and_keeps_float32_masters(micro: Path, ranks: Ranks) -> None:
    rows, policy = random_rows(1), Policy(micro, ranks, "bfloat16")
    assert all(parameter.dtype == torch.float32 for _, parameter in policy.parameters())
    optimizer = make_optimizer(policy, 1e-2, 0.0)
    statistics, _ = train(policy, optimizer, [microbatches(rows, ranks, 1000)], PLAIN, STILL, 0, ranks)
    exact = Policy(micro, ranks, "float32")
    precise, _ = train(exact, make_optimizer(exact, 1e-2, 0.0), [microbatches(rows, ranks, 1000)], PLAIN, STILL, 0, ranks)
    assert statistics.loss == pytest.approx(precise.loss, rel=0.1) and statistics.loss != precise.loss


def test_frozen_layers_stay_and_the_others_learn(micro: Path, ranks: Ranks) -> None:
    rows = random_rows(1)
    policy = Policy(micro, ranks, "float32", train_layers=1)
    start = {name: weight.clone() for name, weight in policy.gather("float32").items()}
    batches = microbatches(rows, ranks, 20)
    train(policy, make_optimizer(policy, 1e-2, 0.0), [batches], PLAIN, SCHEDULE, 0, ranks)
    changed = {name for name, weight in policy.gather("float32").items() if not torch.equal(weight, start[name])}
    assert changed == {name for name in start if name.startswith("model.layers.1.")}


def test_the_proximal_policy_stays_where_the_batch_began(micro: Path, ranks: Ranks) -> None:
    policy = Policy(micro, ranks, "float32")
    optimizer = make_optimizer(policy, 1e-2, 0.0)
    halves = [microbatches(random_rows(1)[half::2], ranks, 1000) for half in (0, 1)]
    before = policy.logprobs(halves[1][0])[0].detach()
    policy.release()
    seen: list[torch.Tensor] = []
    statistics, _ = train(policy, optimizer, halves, PLAIN, SCHEDULE, 0, ranks)
    after = policy.logprobs(halves[1][0])[0].detach()
    seen.append((halves[1][0].behaviour - before).abs())
    assert not torch.allclose(before, after, atol=1e-3), "the updates did not move the policy"
    assert np.allclose(np.sort(statistics.differences[1]), np.sort(seen[0].numpy()), atol=1e-6)


def test_the_divergence_from_a_reference_is_in_the_gradient_and_told(micro: Path, ranks: Ranks, tmp_path: Path) -> None:
    rows, objective = random_rows(1), replace(PLAIN, kl_coef=0.5)
    still = [replace(item, advantages=np.zeros_like(item.advantages)) for item in rows]  # nothing else moves the policy
    policy = Policy(micro, ranks, "float32")
    optimizer = make_optimizer(policy, 1e-2, 0.0)
    batches = microbatches(still, ranks, 1000)
    same, norm = train(policy, optimizer, [batches], objective, STILL, 0, ranks, policy)
    assert summary(same)["kl_reference"] == 0.0 and norm == 0.0
    other = Policy(make_micro(tmp_path / "other", seed=1), ranks, "float32")
    expected = k3(policy.logprobs(batches[0])[0].detach(), other.logprobs(batches[0])[0].detach()).mean().item()
    apart, norm = train(policy, optimizer, [batches], objective, STILL, 0, ranks, other)
    assert summary(apart)["kl_reference"] == pytest.approx(expected, rel=1e-4) and norm > 0
    assert "kl_reference" not in summary(train(policy, optimizer, [batches], PLAIN, STILL, 0, ranks)[0])


@pytest.mark.slow
def test_two_ranks_train_as_one(micro: Path, ranks: Ranks, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    command += ["-m", "tests.workers.trainer.two_ranks", str(micro), str(tmp_path)]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    two = torch.load(tmp_path / "weights.pt")
    one = trained(micro, ranks, random_rows(1, 7), 20)
    start = dict(Policy(micro, ranks, "float32").gather("float32"))
    for name, weight in one.items():
        moved = (weight - start[name]).abs().max()
        assert (two[name] - weight).abs().max() <= 1e-3 * moved + 1e-7, name
    alone = Policy(micro, ranks, "float32", adapter=SHAPE)
    train(alone, make_optimizer(alone, 1e-2, 0.0), [microbatches(random_rows(1, 7), ranks, 20)], PLAIN, SCHEDULE, 0, ranks)
    shared = torch.load(tmp_path / "adapter.pt")
    for name, weight in alone.gather_adapter().items():
        assert (shared[name] - weight).abs().max() <= 1e-3 * 1e-2, name  # a first step of AdamW moves a weight by its rate
    counts = json.loads((tmp_path / "counts.json").read_text())
    assert counts["num_tokens"] == 21 and counts["num_compared"] == 21

"""GAE and its value head: against the sum of the paper, by hand, by finite differences, and through real FSDP2."""

import math
from collections.abc import Sequence
from pathlib import Path

import msgspec
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from atdp.rewards import Reward
from atdp.samples import Lease, TrainSample, TurnSpan
from tests.workers.trainer import reference
from tests.workers.trainer.micro import PLAIN, SCHEDULE, sample, sequence
from workers.trainer.batch import make_batch, split
from workers.trainer.credit import PerTurn, immediate
from workers.trainer.critic import Critic, gae, read_critic, value_loss
from workers.trainer.learning import Learning
from workers.trainer.policy import Policy
from workers.trainer.ranks import Ranks
from workers.trainer.rows import Episode, build_rows, transitions
from workers.trainer.selection import Head
from workers.trainer.settings import Settings
from workers.trainer.step import make_optimizer, microbatches, train
from workers.trainer.version_directory import TrainerState, VersionManifest, adopt_base, write_version

PLACES = {"data_dir": Path("d"), "config_dir": Path("c"), "model_path": Path("m"), "engine_urls": ["http://e"]}
HEAD = Head(index=0, line=frozenset({0}), uses={})
numbers = st.floats(-3, 3)
steps = st.lists(st.tuples(numbers, numbers, st.sampled_from([0.0, 0.5, 1.0])), min_size=1, max_size=12)


@given(steps, st.floats(0, 1))
def test_advantages_are_the_sum_of_the_paper(found: list[tuple[float, float, float]], lam: float) -> None:
    rewards, values, decay = (np.array(column) for column in zip(*found, strict=True))
    decay[-1] = 0.0
    expected = reference.gae_advantages(rewards.tolist(), values.tolist(), decay.tolist(), lam)
    assert gae(rewards, values, decay, lam).tolist() == pytest.approx(expected, rel=1e-9, abs=1e-9)


def test_an_episode_by_hand() -> None:
    # δ = (0 + 0.5·2 − 1, 3 − 2) = (0, 1); A₂ = 1, A₁ = 0 + 0.5·0.5·1
    assert gae(np.array([0.0, 3.0]), np.array([1.0, 2.0]), np.array([0.5, 0.0]), 0.5).tolist() == [0.25, 1.0]


@given(steps)
def test_with_lambda_one_it_is_the_discounted_return_less_the_value(found: list[tuple[float, float, float]]) -> None:
    rewards, values, decay = (np.array(column) for column in zip(*found, strict=True))
    decay[-1] = 0.0
    left = gae(rewards, values, decay, 1.0) + values
    for place in range(len(rewards) - 1):
        assert left[place] == pytest.approx(rewards[place] + decay[place] * left[place + 1], abs=1e-9)


def two_turns(name: str = "a", value: float = 1.0) -> TrainSample:
    """Turns of two tokens each, the first rewarded by itself, the whole at the end; one token of the second was overwritten."""
    turns = [TurnSpan(f"{name}-1", 2, 4), TurnSpan(f"{name}-2", 6, 8)]
    chain = sequence([1, 2, 3, 4, 5, 6, 7, 16], [2, 3, 6, 7], altered=[7], turns=turns)
    given_rewards = [
        Reward("r-1", "acme", "event", f"{name}-1", "score", 0.5, "user", 1),
        Reward("r-2", "acme", "trajectory", name, "done", value, "user", 2),
    ]
    return msgspec.structs.replace(sample(name, [chain], 0.5 + value), rewards=given_rewards)


def test_rewards_arrive_at_the_last_trained_token_of_their_turn_and_decay_is_by_turn() -> None:
    told = two_turns()
    assert immediate(told, "both") == ({("a-1", 0): 0.5, ("a-2", 0): 0.0}, 1.0)
    assert immediate(told, "turns") == ({("a-1", 0): 0.5, ("a-2", 0): 0.0}, 0.0)
    assert immediate(told, "trajectory") == immediate(told, "terminal") == ({}, 1.5)
    (row,) = build_rows([told], [PerTurn(0.0)], 0)
    found = transitions(told.sequences[0], row.trained, Episode({("a-1", 0): 0.5}, 1.0, 0.9))
    assert found.rewards.tolist() == [0, 0, 0, 0.5, 0, 0, 1.0]
    assert found.decay.tolist() == pytest.approx([0, 0, 1.0, 0.9, 0, 0, 0])


def test_the_value_losss_gradient_is_that_of_finite_differences() -> None:
    torch.manual_seed(1)
    hidden, targets, weights = torch.randn(6, 4).double(), torch.randn(6).double(), torch.rand(6).double()
    head, bias = torch.randn(4).double().requires_grad_(), torch.randn(1).double().requires_grad_()
    assert torch.autograd.gradcheck(lambda w, b: value_loss(hidden @ w + b, targets, weights), [head, bias])
    values = np.array([0.5, 2.0])
    assert value_loss(torch.tensor(values), torch.tensor([1.0, 1.0]).double(), torch.tensor([1.0, 2.0]).double()).item() == 1.125


def batch_of(samples: Sequence[TrainSample], ranks: Ranks, estimator: str = "gae") -> list[list[object]]:
    settings = Settings(**PLACES, learning=Learning(advantage=estimator, credit="both", discount=0.9))
    batch = make_batch(Lease("lease-1", 0, list(samples)), HEAD, TrainerState(), settings)
    return [microbatches(rows, ranks, 8) for rows in split(batch, 1, 0)]


def new_critic(micro: Path, ranks: Ranks, passes: int = 4) -> tuple[Policy, Critic]:
    policy = Policy(micro, ranks, "float32")
    return policy, Critic(32, ranks, learning_rate=1e-2, lam=0.95, passes=passes)


def test_the_first_batch_takes_the_running_baseline_and_later_ones_the_heads(micro: Path, ranks: Ranks) -> None:
    policy, critic = new_critic(micro, ranks)
    minibatches = batch_of([two_turns("a", 1.0), two_turns("b", -1.0)], ranks)
    first, told = critic.judge(policy, minibatches, 0.05, lambda: None)
    assert told is not None and critic.num_updates == 4
    for before, after in zip(minibatches[0], first[0], strict=True):
        assert torch.equal(before.advantages, after.advantages)
    (hidden,) = policy.hidden(minibatches[0][:1])
    batch = minibatches[0][0]
    values = critic.values(hidden, batch).double().numpy()
    rewards, decay, _ = (part.double().numpy() for part in batch.transitions)
    expected = reference.gae_advantages(rewards.tolist(), values.tolist(), decay.tolist(), 0.95)
    second, _ = critic.judge(policy, minibatches, 0.05, lambda: None)
    found = second[0][0].advantages.double().numpy()
    assert found / found[0] == pytest.approx(np.array(expected) / expected[0], rel=1e-4)
    spread = torch.cat([part.advantages for part in second[0]])
    assert math.sqrt(float((spread**2).mean())) == pytest.approx(1.0, rel=1e-4)


def test_the_head_learns_what_returns_are_and_never_moves_the_policy(micro: Path, ranks: Ranks) -> None:
    policy, critic = new_critic(micro, ranks)
    minibatches = batch_of([two_turns("a", 1.0)], ranks)
    errors = []
    for _ in range(40):
        _, told = critic.judge(policy, minibatches, 0.05, lambda: None)
        assert told is not None
        errors.append(told.value_error)
    assert errors[-1] < 0.2 * errors[0]
    assert all(parameter.grad is None for _, parameter in policy.parameters())


def test_agents_without_gae_keep_theirs_and_a_batch_without_any_has_nothing_to_tell(micro: Path, ranks: Ranks) -> None:
    policy, critic = new_critic(micro, ranks)
    minibatches = batch_of([two_turns("a", 1.0), two_turns("b", -1.0)], ranks, "baseline")
    judged, told = critic.judge(policy, minibatches, 0.05, lambda: None)
    assert told is None and critic.num_updates == 0
    assert all(torch.equal(left.advantages, right.advantages) for left, right in zip(judged[0], minibatches[0], strict=True))


def test_a_critic_saved_with_its_version_goes_on_to_the_same_next_step(micro: Path, ranks: Ranks, tmp_path: Path) -> None:
    policy, critic = new_critic(micro, ranks)
    minibatches = batch_of([two_turns("a", 1.0), two_turns("b", -1.0)], ranks)
    critic.judge(policy, minibatches, 0.05, lambda: None)
    adopt_base(tmp_path, micro, 1)
    manifest = VersionManifest("v000001", "v000000", 1, {}, "float32", TrainerState())
    directory = write_version(tmp_path, manifest, dict(policy.gather("float32")), micro, critic=critic.tensors())
    again = Critic(32, ranks, learning_rate=1e-2, lam=0.95, passes=4)
    again.load(read_critic(directory))
    kept, went_on = (one.judge(policy, minibatches, 0.05, lambda: None) for one in (critic, again))
    assert kept[1] == went_on[1] and torch.equal(kept[0][0][0].advantages, went_on[0][0][0].advantages)
    assert all(torch.equal(value, again.tensors()[name]) for name, value in critic.tensors().items())
    again.load(read_critic(tmp_path / "v000000"))
    assert again.num_updates == 0 and not again.head.weight.any()


def test_a_step_on_its_advantages_changes_the_policy(micro: Path, ranks: Ranks) -> None:
    policy, critic = new_critic(micro, ranks)
    minibatches = batch_of([two_turns("a", 1.0), two_turns("b", -1.0)], ranks)
    critic.judge(policy, minibatches, 0.05, lambda: None)
    judged, _ = critic.judge(policy, minibatches, 0.05, lambda: None)
    _, norm = train(policy, make_optimizer(policy, 1e-2, 0.0), judged, PLAIN, SCHEDULE, 0, ranks)
    assert norm > 0

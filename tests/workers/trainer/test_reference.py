"""Loss, gradient and advantages against an independent float64 reference, on drawn batches."""

from collections.abc import Sequence

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.workers.trainer import reference
from tests.workers.trainer.reference import Token
from workers.trainer.advantage import AgentBaseline, centre
from workers.trainer.comparison import Contender, Estimator, compare
from workers.trainer.loss import decoupled_ppo, token_logprobs
from workers.trainer.objective import Objective

logprob = st.floats(-12, 0)
caps = st.floats(1.5, 10)
modes = st.sampled_from(["truncate", "mask", "none"])
tokens = st.lists(st.builds(Token, logprob, logprob, logprob, logprob, st.floats(-3, 3), st.floats(0, 1)), min_size=1, max_size=12)
objectives = st.builds(Objective, st.floats(0.05, 0.5), st.floats(0.05, 0.5), caps, modes, st.floats(0, 1))


def column(batch: Sequence[Token], name: str) -> torch.Tensor:
    return torch.tensor([getattr(token, name) for token in batch], dtype=torch.float64)


@given(tokens, objectives, st.booleans())
@settings(max_examples=200)
def test_loss_and_gradient_are_the_references(batch: list[Token], objective: Objective, with_reference: bool) -> None:
    ratios = np.exp([token.logprob - token.proximal for token in batch])
    for edge in (1 - objective.clip_low, 1 + objective.clip_high):  # at a kink there is no derivative to compare
        assume(np.abs(ratios - edge).min() > 1e-9)
    policy = column(batch, "logprob").requires_grad_()
    others = [column(batch, name) for name in ("proximal", "behaviour", "advantage", "weight")]
    terms = decoupled_ppo(policy, *others, objective, column(batch, "reference") if with_reference else None)
    terms.loss.backward()
    expected = [reference.token_loss(token, objective, with_reference) for token in batch]
    scale = 1 + sum(abs(loss) for loss, _ in expected)
    assert terms.loss.item() == pytest.approx(sum(loss for loss, _ in expected), abs=1e-9 * scale)
    assert policy.grad is not None
    assert policy.grad.tolist() == pytest.approx([derivative for _, derivative in expected], rel=1e-9, abs=1e-12)


@given(st.integers(0, 1000), st.floats(0.1, 3), st.integers(2, 40))
def test_token_logprobs_and_entropy_are_the_references(seed: int, temperature: float, vocabulary: int) -> None:
    random = np.random.default_rng(seed)
    logits, targets = random.normal(0, 5, (3, vocabulary)), random.integers(0, vocabulary, 5)
    places = random.integers(0, 3, 5)
    args = (torch.full((3,), temperature, dtype=torch.float64), torch.from_numpy(places), torch.from_numpy(targets))
    logprobs, entropy = token_logprobs(torch.from_numpy(logits), *args)
    expected = [reference.log_softmax(row, temperature) for row in logits]
    assert logprobs.tolist() == pytest.approx([expected[p][t] for p, t in zip(places, targets, strict=True)], rel=1e-9)
    assert entropy.tolist() == pytest.approx([-(np.exp(row) * row).sum() for row in expected], rel=1e-9, abs=1e-12)


@given(st.lists(st.floats(-5, 5), min_size=1, max_size=9), st.floats(0, 20), st.floats(-3, 3), st.floats(0, 0.99))
def test_the_running_baseline_is_the_references(rewards: list[float], weight: float, mean: float, decay: float) -> None:
    assume(decay * weight == 0 or decay * weight > 1e-6)
    found = centre(rewards, AgentBaseline(weight, mean), decay, 0.1).baselines
    expected = reference.running_baseline(rewards, weight, mean, decay)
    for reward, baseline, right in zip(rewards, found, expected, strict=True):
        assert (None if baseline is None else reward - baseline) == (None if right is None else pytest.approx(right, abs=1e-8))


@given(st.lists(st.floats(-5, 5), min_size=2, max_size=9), st.sampled_from(["group", "rloo", "reinforce++"]))
def test_group_estimators_are_the_papers_formulas(rewards: list[float], estimator: Estimator) -> None:
    contenders = [Contender("acme/a", ("acme", "a", b""), reward, estimator) for reward in rewards]
    comparisons, _ = compare(contenders, {}, 0.7, 0.05)
    found = [comparison.of(reward) for comparison, reward in zip(comparisons, rewards, strict=True)]
    assert found == pytest.approx(reference.group_advantages(rewards, estimator, 0.05), rel=1e-8, abs=1e-9)

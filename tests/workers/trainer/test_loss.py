"""The objective against numbers worked out by hand and against finite differences."""

import math
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from tests.workers.trainer.micro import PLAIN
from workers.trainer.loss import behaviour_weights, decoupled_ppo, k3, token_logprobs


def logs(*probabilities: float) -> Tensor:
    return torch.tensor(probabilities, dtype=torch.float64).log()


def ones(count: int) -> Tensor:
    return torch.ones(count, dtype=torch.float64)


def test_the_loss_is_the_formula_worked_out_by_hand() -> None:
    # ratio 0.3/0.2 = 1.5 clipped to 1.2, β 0.2/0.1 = 2, A = 1 → 2.4; ratio 0.1/0.2 = 0.5, A = −1 clipped to 0.8, β 1 → −0.8
    terms = decoupled_ppo(logs(0.3, 0.1), logs(0.2, 0.2), logs(0.1, 0.2), torch.tensor([1.0, -1.0]).double(), ones(2) / 2, PLAIN)
    assert terms.loss.item() == pytest.approx(-(2.4 - 0.8) / 2)
    assert terms.clipped.tolist() == [True, True] and terms.limited.tolist() == [False, False]


def test_the_clip_never_hides_a_loss() -> None:
    # A < 0 and the ratio above 1 + ε: the minimum is the unclipped term, so the gradient stays
    terms = decoupled_ppo(logs(0.3), logs(0.2), logs(0.2), -ones(1), ones(1), PLAIN)
    assert terms.loss.item() == pytest.approx(1.5) and terms.clipped.tolist() == [False]


def test_behaviour_weight_is_truncated_at_the_cap() -> None:
    weight, limited = behaviour_weights(logs(0.6, 0.2), logs(0.1, 0.1), 5.0, "truncate")
    assert weight.tolist() == pytest.approx([5.0, 2.0]) and limited.tolist() == [True, False]


def test_behaviour_weight_masks_outside_the_cap_on_both_sides() -> None:
    weight, limited = behaviour_weights(logs(0.6, 0.2, 0.1), logs(0.1, 0.1, 0.6), 5.0, "mask")
    assert weight.tolist() == pytest.approx([0.0, 2.0, 0.0]) and limited.tolist() == [True, False, True]


def test_a_masked_token_has_exactly_no_gradient() -> None:
    logprobs = logs(0.6, 0.2).requires_grad_()
    decoupled_ppo(
        logprobs, logs(0.6, 0.2), logs(0.1, 0.2), ones(2), ones(2), replace(PLAIN, behaviour_weight="mask")
    ).loss.backward()
    assert logprobs.grad is not None and logprobs.grad[0].item() == 0.0 and logprobs.grad[1].item() != 0.0


def test_k3_is_the_divergence_in_expectation_and_zero_for_equals() -> None:
    policy, reference = torch.tensor([0.7, 0.3]).double(), torch.tensor([0.5, 0.5]).double()
    expected = (policy * (policy / reference).log()).sum()
    assert (policy * k3(policy.log(), reference.log())).sum().item() == pytest.approx(expected.item())
    assert k3(policy.log(), policy.log()).tolist() == [0.0, 0.0]


def test_token_logprobs_apply_the_temperature_of_each_place() -> None:
    logits = torch.tensor([[0.0, 2.0], [0.0, 2.0]])
    logprobs, entropy = token_logprobs(logits, torch.tensor([1.0, 0.5]), torch.tensor([0, 1, 1]), torch.tensor([1, 1, 0]))
    expected = [-math.log1p(math.exp(-2)), -math.log1p(math.exp(-4)), -math.log1p(math.exp(4))]
    assert logprobs.tolist() == pytest.approx(expected, rel=1e-5)
    p = 1 / (1 + math.exp(-2))
    assert entropy[0].item() == pytest.approx(-(p * math.log(p) + (1 - p) * math.log(1 - p)))


@pytest.mark.parametrize("with_reference", [False, True])
def test_gradient_is_that_of_finite_differences_in_float64(with_reference: bool) -> None:
    torch.manual_seed(3)
    proximal, behaviour, reference = (torch.rand(8, dtype=torch.float64).log() for _ in range(3))
    logprobs = (proximal + 0.05 * torch.randn(8, dtype=torch.float64)).requires_grad_()
    advantages, weights = torch.randn(8, dtype=torch.float64), torch.rand(8, dtype=torch.float64)
    objective = replace(PLAIN, kl_coef=0.3)

    def loss(values: Tensor) -> Tensor:
        return decoupled_ppo(
            values, proximal, behaviour, advantages, weights, objective, reference if with_reference else None
        ).loss

    assert torch.autograd.gradcheck(loss, [logprobs])

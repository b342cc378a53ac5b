"""Products of few rows are those of plain torch, a draw follows the probabilities, and what does not suit is left to SGLang."""

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor

from workers.inference.cpu_profile.skinny_products import MAX_ROWS, around_draw, around_head, around_linear

LEFT = torch.tensor([7])


def left(*_: Any, **__: Any) -> Tensor:
    return LEFT


def refuse(*_: Any, **__: Any) -> Tensor:
    raise AssertionError("left to SGLang")


@pytest.mark.parametrize("rows", [2, 3, MAX_ROWS])
@pytest.mark.parametrize("bias", [None, torch.randn(40)])
def test_a_product_is_the_float64_one(rows: int, bias: Tensor | None) -> None:
    torch.manual_seed(rows)
    x, layer = torch.randn(rows, 24), SimpleNamespace(weight=torch.randn(40, 24))
    found = around_linear(refuse, None, layer, x, bias)
    expected = x.double() @ layer.weight.double().T + (0 if bias is None else bias.double())
    torch.testing.assert_close(found.double(), expected, rtol=1e-5, atol=1e-5)
    assert found.is_contiguous()
    torch.testing.assert_close(
        around_head(refuse, None, x, layer).double(), x.double() @ layer.weight.double().T, rtol=1e-5, atol=1e-5
    )


@pytest.mark.parametrize(
    ("x", "weight"),
    [
        (torch.ones(1, 4), torch.ones(3, 4)),
        (torch.ones(MAX_ROWS + 1, 4), torch.ones(3, 4)),
        (torch.ones(2, 2, 4), torch.ones(3, 4)),
        (torch.ones(2, 4, dtype=torch.bfloat16), torch.ones(3, 4)),
        (torch.ones(2, 4), torch.ones(3, 4, dtype=torch.bfloat16)),
        (torch.ones(2, 4), torch.ones(4, 3).T),
    ],
)
def test_other_products_are_left(x: Tensor, weight: Tensor) -> None:
    layer = SimpleNamespace(weight=weight)
    assert around_linear(left, None, layer, x) is LEFT
    assert around_head(left, None, x, layer) is LEFT


def test_other_heads_are_left() -> None:
    x, weight = torch.ones(2, 4), torch.ones(3, 4)
    assert around_head(left, None, x, SimpleNamespace(weight=weight, apply_lora=None)) is LEFT
    assert around_head(left, None, x, SimpleNamespace(weight=weight), torch.ones(3)) is LEFT
    assert around_head(left, None, x, SimpleNamespace(qweight=weight)) is LEFT


def test_a_draw_follows_the_probabilities() -> None:
    """Chi squared over 5 tokens (4 degrees of freedom): above 28 once in 100,000 seeds, and the seed is fixed."""
    torch.manual_seed(1)
    probs = torch.tensor([0.5, 0.0, 0.3, 0.15, 0.049, 0.001, 0.0])
    drawn = around_draw(refuse, probs.expand(20_000, -1))
    assert drawn.dtype == torch.int32 and drawn.shape == (20_000,)
    seen = torch.bincount(drawn.long(), minlength=7)
    assert seen[1] == seen[6] == 0
    expected = 20_000 * probs
    likely = expected > 0
    assert float(((seen - expected) ** 2 / expected)[likely].sum()) < 28


@pytest.mark.parametrize("uniform", [0.0, 1 - 2**-53])
def test_the_ends_of_the_uniform_number_draw_tokens_that_can_be(uniform: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "rand_like", lambda like: torch.full_like(like, uniform))
    probs = torch.tensor([[0.0, 0.25, 0.75, 0.0], [0.0, 0.5000001, 0.5000001, 0.0]])
    assert around_draw(refuse, probs).tolist() == ([1, 1] if uniform == 0 else [2, 2])


def test_seeded_draws_and_what_is_no_distribution_are_left() -> None:
    probs = torch.full((2, 4), 0.25)
    assert around_draw(left, probs, sampling_seed=torch.tensor([1, 2])) is LEFT
    assert around_draw(left, torch.full((2, 4), torch.nan)) is LEFT

"""What a decode step on a CPU computes besides attention: products of a few rows with the weights, and the draw of a token.

Owns two forms of the same mathematics that cost less there: `weights @ rows.T` instead of `rows @ weights.T`, and a draw by the
cumulated probabilities. Not owned: quantized layers, prompts (many rows), draws with a seed, filtered draws; SGLang does those.
Source: SGLang 0.5.23, `srt/layers/quantization/unquant.py`, `logits_processor.py`, `sampler.py`; what it saves is in
docs/decisions/0004. Place in the path: step 1, in the scheduler on a CPU.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import torch
from torch import Tensor

MAX_ROWS: Final = 48
"""From 64 rows on it was a gain in one run and none in another."""


def around_linear(original: Callable[..., Tensor], method: Any, layer: Any, x: Tensor, bias: Tensor | None = None) -> Tensor:
    """`x` (rows, in) through `layer.weight` (out, in); gives (rows, out), contiguous."""
    if not _is_skinny(x, layer.weight):
        return original(method, layer, x, bias)
    found = _product(x, layer.weight)
    return found if bias is None else found.add_(bias)


def around_head(
    original: Callable[..., Tensor], processor: Any, hidden: Tensor, head: Any, bias: Any = None, **options: Any
) -> Tensor:
    """Logits (rows, vocabulary) of `hidden` (rows, size), where the head is plain weights."""
    weight = getattr(head, "weight", None)
    if hasattr(head, "apply_lora") or bias is not None or weight is None or not _is_skinny(hidden, weight):
        return original(processor, hidden, head, bias, **options)
    return _product(hidden, weight)


def around_draw(original: Callable[..., Tensor], probs: Tensor, sampling_seed: Any = None, positions: Any = None) -> Tensor:
    """One token a row of `probs` (rows, vocabulary), int32: the first whose cumulated probability is above a uniform number.

    A token of probability 0 is never drawn.
    """
    if sampling_seed is not None:
        return original(probs, sampling_seed=sampling_seed, positions=positions)
    cumulated = probs.cumsum(-1, dtype=torch.float64)
    total = cumulated[:, -1:]
    if not bool(total.isfinite().all()):  # of what is no distribution SGLang says so
        return original(probs)
    below_total = torch.nextafter(total, torch.zeros_like(total))
    target = torch.minimum(torch.rand_like(total) * total, below_total)
    return torch.searchsorted(cumulated, target, right=True).view(-1).to(torch.int32)


def _is_skinny(x: Tensor, weight: Tensor) -> bool:
    return x.ndim == 2 and 1 < len(x) <= MAX_ROWS and x.dtype == weight.dtype == torch.float32 and weight.is_contiguous()


def _product(x: Tensor, weight: Tensor) -> Tensor:
    return torch.mm(weight, x.t()).t().contiguous()

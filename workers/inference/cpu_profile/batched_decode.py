"""Attention of one decode step for all requests at once: SGLang's torch backend calls torch once a request in every layer.

Owns the padded form: keys and values of every request gathered to the longest, what lies behind a request's end masked. Not owned:
cross attention, sliding windows, and batches so ragged that padding would cost more than it saves, which SGLang's own loop keeps.
Source: SGLang 0.5.23, `srt/layers/attention/torch_native_backend.py`. Place in the path: step 1, in the scheduler on a CPU.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

_MAX_PADDING: Final = 2
"""Padded positions for each real one, beyond which the loop is left to it."""
_FREE_POSITIONS: Final = 4096
"""Padded positions that are always worth it."""


@dataclass(frozen=True, slots=True)
class _Plan:
    """Of one forward pass, for all layers: `slots` (requests × longest) in the cache, `bias` (requests, 1, 1, longest)."""

    seq_lens: Tensor
    slots: Tensor
    bias: Tensor


class BatchedDecode:
    """The scheduler's hooks around its attention backend."""

    def __init__(self) -> None:
        self._plan: _Plan | None = None

    def around_metadata(self, original: Callable[..., Any], backend: Any, forward_batch: Any) -> Any:
        """A new forward pass begins."""
        self._plan = None
        return original(backend, forward_batch)

    def around_decode(
        self,
        original: Callable[..., Tensor],
        backend: Any,
        query: Tensor,
        output: Tensor,
        k_cache: Tensor,
        v_cache: Tensor,
        req_to_token: Tensor,
        req_pool_indices: Tensor,
        seq_lens: Tensor,
        encoder_lens: Tensor | None = None,
        **options: Any,
    ) -> Tensor:
        """Fills `output`, as the original does; it and `query` are (requests, heads, size), caches (slots, heads of keys, size)."""
        own = encoder_lens is None and not options.get("is_cross_attn") and options.get("sliding_window_size") is None
        if not (own and k_cache.is_contiguous() and v_cache.is_contiguous() and _is_even(seq_lens)):
            arguments = (query, output, k_cache, v_cache, req_to_token, req_pool_indices, seq_lens, encoder_lens)
            return original(backend, *arguments, **options)
        plan = self._plan
        if plan is None or plan.seq_lens is not seq_lens:
            plan = self._plan = _planned(req_to_token, req_pool_indices, seq_lens, query.dtype)
        keys, values = (_gathered(cache, plan.slots, query.dtype) for cache in (k_cache, v_cache))
        grouped = query.view(len(query), keys.shape[1], -1, query.shape[-1])  # the heads that share keys are rows of one
        found = scaled_dot_product_attention(grouped, keys, values, attn_mask=plan.bias, scale=options.get("scaling"))
        return output.copy_(found.reshape(output.shape))


def _is_even(seq_lens: Tensor) -> bool:
    padded = len(seq_lens) * int(seq_lens.max())
    return padded <= max(_FREE_POSITIONS, _MAX_PADDING * int(seq_lens.sum()))


def _planned(req_to_token: Tensor, req_pool_indices: Tensor, seq_lens: Tensor, dtype: torch.dtype) -> _Plan:
    longest = int(seq_lens.max())
    beyond = torch.arange(longest) >= seq_lens[:, None]
    slots = req_to_token[req_pool_indices, :longest].masked_fill(beyond, 0).long()  # slot 0 is nobody's
    bias = torch.zeros(beyond.shape, dtype=dtype).masked_fill(beyond, -torch.inf)
    return _Plan(seq_lens, slots, bias[:, None, None, :])


def _gathered(cache: Tensor, slots: Tensor, dtype: torch.dtype) -> Tensor:
    """(requests, heads of keys, longest, size)."""
    rows = cache.flatten(1).index_select(0, slots.flatten())
    return rows.view(*slots.shape, *cache.shape[1:]).transpose(1, 2).to(dtype)

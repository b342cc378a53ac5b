"""Attention over a prefix tree: every node sees its own path and nothing else.

Owns one attention function, registered with transformers under `prefix_tree`, so that any of its decoder models takes
it. Queries are gathered per row, keys and values per path, so the cost is that of the rows' own lengths, not of the square of
the microbatch.
"""

from __future__ import annotations

from typing import Final

import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention
from transformers import AttentionInterface

from workers.trainer.packing import Tree

NAME: Final = "prefix_tree"

_SHORT: Final = 512
"""Paths up to this length take the written-out form on a CPU: PyTorch's fused CPU kernel needs 4 times as long at 96
tokens in bfloat16 (its backward does not use AVX512-BF16). Beyond it the square matrices cost too much memory."""


def tree_attention(
    module: nn.Module, query: Tensor, key: Tensor, value: Tensor, attention_mask: None, *, tree: Tree, scaling: float, **_: object
) -> tuple[Tensor, None]:
    """`query` [1, H, T, D], `key` and `value` [1, G, T, D] with G dividing H; gives [1, T, H, D]."""
    queries, keys, values = _rows(query, tree.queries), _rows(key, tree.keys), _rows(value, tree.keys)
    short = query.device.type == "cpu" and tree.keys.shape[1] <= _SHORT
    out = (_written_out if short else _fused)(queries, keys, values, tree.mask, scaling)
    num_rows, heads, length, width = out.shape
    nodes = out.transpose(1, 2).reshape(num_rows * length, heads, width).index_select(0, tree.flat)
    return nodes[None], None


def _rows(states: Tensor, nodes: Tensor) -> Tensor:
    """[1, H, T, D] and [N, S] node numbers → [N, H, S, D]."""
    _, heads, _, width = states.shape
    gathered = states[0].index_select(1, nodes.reshape(-1))
    return gathered.reshape(heads, *nodes.shape, width).transpose(0, 1)


def _fused(queries: Tensor, keys: Tensor, values: Tensor, mask: Tensor, scaling: float) -> Tensor:
    return scaled_dot_product_attention(
        queries, keys, values, attn_mask=mask, scale=scaling, enable_gqa=queries.shape[1] != keys.shape[1]
    )


def _written_out(queries: Tensor, keys: Tensor, values: Tensor, mask: Tensor, scaling: float) -> Tensor:
    """softmax(QKᵀ) V with the query heads of one key head in one product; softmax in float32 or wider."""
    num_rows, heads, length, width = queries.shape
    groups = keys.shape[1]
    stacked = (queries * scaling).reshape(num_rows, groups, heads // groups * length, width)
    bias = torch.zeros(mask.shape, dtype=queries.dtype, device=mask.device).masked_fill_(~mask, float("-inf"))
    scores = (stacked @ keys.transpose(-1, -2)).reshape(num_rows, groups, heads // groups, length, -1)
    wide = torch.promote_types(scores.dtype, torch.float32)
    weights = torch.softmax(scores + bias[:, None], dim=-1, dtype=wide).to(values.dtype)
    return (weights.reshape(num_rows, groups, heads // groups * length, -1) @ values).reshape(queries.shape)


def register() -> None:
    """Make the name known to transformers; without a mask function of the same name it builds no mask of its own."""
    AttentionInterface.register(NAME, tree_attention)

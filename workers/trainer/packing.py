"""Packing: rows that begin with the same tokens share them, so each distinct prefix is computed once per microbatch.

Owns the layout of a microbatch. Rows are sorted by their tokens; each adds only the nodes that the row before it has
not: the microbatch is a prefix tree laid flat, without padding, and a system prompt costs one row instead of all. Causal
attention makes this exact: a token's state depends on its path alone. Not owned: the attention over it (`attention`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from workers.trainer.rows import Row

Ints = NDArray[np.int64]


@dataclass(slots=True, frozen=True)
class Tree:
    """Who attends to whom, for T nodes in N rows of at most S new nodes and paths of at most K.

    `queries` [N, S] node of each new position (0 where padded), `keys` [N, K] node of each path position (0 where
    padded), `mask` [N, 1, S, K] bool, `flat` [T] where node t lies in the flattened [N * S] queries.
    """

    queries: Tensor
    keys: Tensor
    mask: Tensor
    flat: Tensor


@dataclass(slots=True, frozen=True)
class Microbatch:
    """T nodes of a prefix tree, P of which predict trained tokens, M trained tokens.

    `token_ids` [1, T], `positions` [1, T] int64; `predictors` [P] nodes whose logits are needed, `temperatures` [P];
    then one entry per trained token: `predictor` [M] index into P, `targets` [M] token ids, `behaviour` [M] logprobs,
    `advantages` [M], `weights` [M], `comparable` [M] bool; where a row of it is for GAE, its `transitions`: rewards [M],
    decay [M], and [M] bool which tokens they are of.
    """

    tree: Tree
    token_ids: Tensor
    positions: Tensor
    predictors: Tensor
    temperatures: Tensor
    predictor: Tensor
    targets: Tensor
    behaviour: Tensor
    advantages: Tensor
    weights: Tensor
    comparable: Tensor
    transitions: tuple[Tensor, Tensor, Tensor] | None = None

    def to(self, device: torch.device) -> Microbatch:
        """The same on `device`."""
        moved = {f.name: getattr(self, f.name).to(device) for f in fields(self) if f.name not in ("tree", "transitions")}
        tree = Tree(*(getattr(self.tree, f.name).to(device) for f in fields(Tree)))
        if self.transitions is not None:
            rewards, decay, asked = self.transitions
            moved["transitions"] = (rewards.to(device), decay.to(device), asked.to(device))
        return Microbatch(tree=tree, **moved)


def sort_rows(rows: Sequence[Row]) -> list[Row]:
    """Rows in the order of their tokens, so that shared prefixes are neighbours; deterministic on every rank."""
    return sorted(rows, key=lambda row: (row.token_ids.tolist(), row.temperature))


def shard(rows: Sequence[Row], world_size: int) -> list[list[Row]]:
    """Cut sorted rows into `world_size` runs of about equally many tokens; runs may be empty."""
    ends = np.cumsum([len(row.token_ids) for row in rows])
    total = int(ends[-1]) if len(rows) else 0
    owner = [min(world_size - 1, int((end - 1) * world_size / total)) for end in ends]
    return [[row for row, rank in zip(rows, owner, strict=True) if rank == wanted] for wanted in range(world_size)]


def group(rows: Sequence[Row], max_nodes: int) -> list[list[Row]]:
    """Cut sorted rows into runs of at most `max_nodes` distinct nodes; one longer row stands alone."""
    groups: list[list[Row]] = []
    nodes = 0
    for row in rows:
        shared = _shared(groups[-1][-1], row) if groups else 0
        new = len(row.token_ids) - 1 - shared
        if not groups or nodes + new > max_nodes:
            groups.append([])
            nodes, new = 0, len(row.token_ids) - 1
        groups[-1].append(row)
        nodes += new
    return groups


def pack(rows: Sequence[Row]) -> Microbatch:
    """Lay sorted rows out as one prefix tree. The last token of a row is only a target, so it is no node."""
    paths = _paths(rows)
    token_ids = np.zeros(1 + max(int(path[-1]) for path, _ in paths), np.int64)
    positions = np.zeros_like(token_ids)
    for row, (path, _) in zip(rows, paths, strict=True):
        token_ids[path] = row.token_ids[:-1]
        positions[path] = np.arange(len(path))
    trained = [np.flatnonzero(row.trained) for row in rows]
    nodes = np.concatenate([path[at - 1] for (path, _), at in zip(paths, trained, strict=True)])
    temperature = np.concatenate([np.full(len(at), row.temperature) for row, at in zip(rows, trained, strict=True)])
    wanted, predictor = np.unique(np.stack([nodes, temperature]), axis=1, return_inverse=True)

    def per_token(name: str) -> Tensor:
        values = [np.broadcast_to(getattr(row, name), row.token_ids.shape)[at] for row, at in zip(rows, trained, strict=True)]
        return torch.from_numpy(np.concatenate(values))

    return Microbatch(
        tree=_tree(paths),
        token_ids=torch.from_numpy(token_ids)[None],
        positions=torch.from_numpy(positions)[None],
        predictors=torch.from_numpy(wanted[0].astype(np.int64)),
        temperatures=torch.from_numpy(wanted[1].astype(np.float32)),
        predictor=torch.from_numpy(predictor.reshape(-1)),
        targets=per_token("token_ids").long(),
        behaviour=per_token("behaviour"),
        advantages=per_token("advantages").float(),
        weights=per_token("weight").float(),
        comparable=per_token("comparable"),
        transitions=_transitions(rows, trained),
    )


def _transitions(rows: Sequence[Row], trained: Sequence[Ints]) -> tuple[Tensor, Tensor, Tensor] | None:
    if all(row.transitions is None for row in rows):
        return None
    parts = []
    for row, at in zip(rows, trained, strict=True):
        told, nothing = row.transitions, np.zeros(len(at), np.float32)
        rewards, decay = (nothing, nothing) if told is None else (told.rewards[at], told.decay[at])
        parts.append((rewards, decay, np.full(len(at), told is not None)))
    columns = [torch.from_numpy(np.concatenate(column)) for column in zip(*parts, strict=True)]
    return columns[0], columns[1], columns[2]


def _shared(left: Row, right: Row) -> int:
    """How many first nodes two rows have in common."""
    length = min(len(left.token_ids), len(right.token_ids)) - 1
    different = np.flatnonzero(left.token_ids[:length] != right.token_ids[:length])
    return int(different[0]) if len(different) else length


def _paths(rows: Sequence[Row]) -> list[tuple[Ints, int]]:
    """For each row: the nodes of its path, and how many of them it shares with the row before."""
    paths: list[tuple[Ints, int]] = []
    size = 0
    for index, row in enumerate(rows):
        shared = _shared(rows[index - 1], row) if index else 0
        new = len(row.token_ids) - 1 - shared
        head = paths[-1][0][:shared] if index else np.empty(0, np.int64)
        paths.append((np.concatenate([head, np.arange(size, size + new)]), shared))
        size += new
    return paths


def _tree(paths: Sequence[tuple[Ints, int]]) -> Tree:
    """Rows that add no node need no query."""
    owners = [(path, shared) for path, shared in paths if len(path) > shared]
    num_queries = max(len(path) - shared for path, shared in owners)
    num_keys = max(len(path) for path, _ in owners)
    queries = np.zeros((len(owners), num_queries), np.int64)
    keys = np.zeros((len(owners), num_keys), np.int64)
    depth = np.zeros((len(owners), num_queries), np.int64)
    flat = []
    for index, (path, shared) in enumerate(owners):
        new = len(path) - shared
        queries[index, :new] = path[shared:]
        keys[index, : len(path)] = path
        depth[index, :new] = np.arange(shared, len(path))
        flat.append(index * num_queries + np.arange(new))
    mask = np.arange(num_keys) <= depth[:, :, None]  # a padded query sees key 0, so that no row of the mask is empty
    tensors = (queries, keys, mask[:, None], np.concatenate(flat))
    return Tree(*(torch.from_numpy(values) for values in tensors))

"""Checkpoints: float32 masters (of an adapter where one is trained) and optimizer state, sharded, by torch.distributed.checkpoint.

Owns their directories: one to a version, complete once it has its final name; the last few are kept. With one, the next step
is the same bit for bit; without one for the head, masters come from the published weights (decision 0005). Any number of ranks
reads what any other number wrote. Not owned: the rest of the trainer's state, which each version carries.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import torch
from torch import Tensor
from torch.distributed.checkpoint.state_dict import get_optimizer_state_dict, set_optimizer_state_dict
from torch.distributed.checkpoint.state_dict_loader import load
from torch.distributed.checkpoint.state_dict_saver import save

from workers.trainer.adapter import is_adapter
from workers.trainer.policy import Policy
from workers.trainer.ranks import Ranks


def save_checkpoint(root: Path, version: str, policy: Policy, optimizer: torch.optim.Optimizer, ranks: Ranks, keep: int) -> None:
    """Write masters and optimizer state as they are after making `version`; keep the newest `keep`. Collective."""
    staging = root / f".{version}"
    if ranks.is_first:
        shutil.rmtree(staging, ignore_errors=True)
        staging.mkdir(parents=True)
    ranks.wait()
    state = {"weights": _weights(policy), "optimizer": get_optimizer_state_dict(policy.model, optimizer)}
    save(state, checkpoint_id=staging)
    ranks.wait()
    if ranks.is_first:
        shutil.rmtree(root / version, ignore_errors=True)
        staging.rename(root / version)
        for old in checkpoints(root)[keep:]:
            shutil.rmtree(root / old)


def checkpoints(root: Path) -> list[str]:
    """Versions with a complete checkpoint, the last written first."""
    found = [path for path in root.iterdir() if not path.name.startswith(".")] if root.is_dir() else []
    return [path.name for path in sorted(found, key=lambda path: path.stat().st_mtime_ns, reverse=True)]


def load_checkpoint(root: Path, version: str, policy: Policy, optimizer: torch.optim.Optimizer, with_weights: bool) -> None:
    """Read optimizer state, and masters too if asked. Collective."""
    state: dict[str, object] = {"optimizer": get_optimizer_state_dict(policy.model, optimizer)}
    if with_weights:
        state["weights"] = _weights(policy)  # the live shards: read in place
    load(state, checkpoint_id=root / version)
    set_optimizer_state_dict(policy.model, optimizer, optim_state_dict=state["optimizer"])  # type: ignore[arg-type]


def _weights(policy: Policy) -> dict[str, Tensor]:
    wanted = policy.parameters() if policy.adapter is None else ((n, p) for n, p in policy.parameters() if is_adapter(n))
    return {name: parameter.detach() for name, parameter in wanted}

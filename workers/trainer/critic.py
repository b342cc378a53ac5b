"""The critic: a value head on the policy's hidden states, and advantages by GAE (arXiv 1506.02438) for agents that ask for `gae`.

    δ_t = r_t + γ_t V(s_{t+1}) − V(s_t)        A_t = δ_t + γ_t λ A_{t+1}        target of V(s_t): R_t = A_t + V(s_t)

over the trained tokens of a row; γ_t is 1 inside a turn, the agent's discount from one turn to the next, 0 at the row's end. The
head is linear, float32 and replicated; hidden states are detached, so its loss ½ Σ w_t (V(s_t) − R_t)² never moves the policy. It
learns after the batch's advantages are taken, so no baseline holds the reward that it is subtracted from. A head that has learned
nothing yet gives no advantage: its first batch takes the agent's running baseline. Owns head and optimizer; their file lies beside
a version.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import numpy as np
import torch
import torch.distributed as dist
from numpy.typing import NDArray
from torch import Tensor

from workers.trainer.packing import Microbatch
from workers.trainer.policy import Policy
from workers.trainer.ranks import Ranks
from workers.trainer.version_directory import CRITIC

Floats = NDArray[np.float64]

_EPS: Final = 1e-5
"""Of the head's Adam. Its bias begins where the gradient is zero but for rounding: a smaller one would make that a whole step."""


@dataclass(slots=True, frozen=True)
class Told:
    """Of one batch: root mean square of R − V before the head learned from it, and the share of R's variance that V explained."""

    value_error: float
    value_explained: float


def gae(rewards: Floats, values: Floats, decay: Floats, lam: float) -> Floats:
    """A_t [M] for tokens in the order of their rows; `decay` γ_t is 0 where nothing follows. Float64."""
    advantages = np.zeros(len(rewards) + 1)
    following = np.append(values, 0.0)
    for t in range(len(rewards) - 1, -1, -1):
        delta = rewards[t] + decay[t] * following[t + 1] - values[t]
        advantages[t] = delta + decay[t] * lam * advantages[t + 1]
    return advantages[:-1]


class Critic:
    """One rank's copy of the head; all ranks hold the same. `num_updates` counts its optimizer's."""

    def __init__(self, hidden_size: int, ranks: Ranks, learning_rate: float, lam: float, passes: int) -> None:
        self._ranks, self._lam, self._passes, self._rate = ranks, lam, passes, learning_rate
        self.head = torch.nn.Linear(hidden_size, 1, device=ranks.device)
        self.begin()

    def begin(self) -> None:
        """A head that knows nothing: V = 0."""
        torch.nn.init.zeros_(self.head.weight)
        torch.nn.init.zeros_(self.head.bias)
        self._optimizer = torch.optim.AdamW(self.head.parameters(), lr=self._rate, weight_decay=0.0, eps=_EPS)
        self.num_updates = 0

    @torch.no_grad()
    def values(self, hidden: Tensor, batch: Microbatch) -> Tensor:
        """V(s_t) [M] of a microbatch from its hidden states [P, H] where tokens were sampled."""
        found: Tensor = self.head(hidden)[:, 0]
        return found[batch.predictor]

    def judge(
        self, policy: Policy, minibatches: Sequence[Sequence[Microbatch]], scale_floor: float, before: Callable[[], None]
    ) -> tuple[list[list[Microbatch]], Told | None]:
        """The batch with GAE's advantages where they are asked for, divided by their spread; then the head learns from it.

        Centring is V's business: the mean of a batch holds each reward. Collective; None where no agent asked.
        """
        flat = [(place, batch) for place, batches in enumerate(minibatches) for batch in batches]
        hidden = policy.hidden([batch for _, batch in flat], before)
        states = [self._state(batch, states) for (_, batch), states in zip(flat, hidden, strict=True)]
        sums = _gathered(self._ranks, states)
        if sums is None:
            return [list(batches) for batches in minibatches], None
        scale = max(scale_floor, sums["spread"])
        judged: list[list[Microbatch]] = [[] for _ in minibatches]
        for (place, batch), state in zip(flat, states, strict=True):
            judged[place].append(self._with_advantages(batch, state, scale) if self.num_updates else batch)
        self._learn([(states, batch, state) for (_, batch), states, state in zip(flat, hidden, states, strict=True)], sums["mean"])
        return judged, Told(sums["error"], sums["explained"])

    def _state(self, batch: Microbatch, hidden: Tensor) -> _State:
        """Advantages and targets of the tokens that GAE is asked for."""
        values = self.values(hidden, batch).double().cpu().numpy()
        if batch.transitions is None:
            nothing = np.zeros(len(values))
            return _State(nothing.astype(np.bool_), nothing, nothing, values, nothing)
        rewards, decay, asked = (part.cpu().numpy() for part in batch.transitions)
        advantages = gae(rewards.astype(np.float64), values, decay.astype(np.float64), self._lam)
        real = asked & (batch.weights.cpu().numpy() > 0)
        return _State(real, advantages, advantages + values, values, batch.weights.double().cpu().numpy())

    def _with_advantages(self, batch: Microbatch, state: _State, scale: float) -> Microbatch:
        asked = torch.from_numpy(state.asked).to(batch.advantages.device)
        own = torch.from_numpy(state.advantages / scale).to(batch.advantages)
        return replace(batch, advantages=torch.where(asked, own, batch.advantages))

    def _learn(self, seen: Sequence[tuple[Tensor, Microbatch, _State]], mean: float) -> None:
        """A few updates on the states of this batch, whose hidden states are at hand."""
        if not self.num_updates:
            torch.nn.init.constant_(self.head.bias, mean)
        for _ in range(self._passes):
            self._optimizer.zero_grad()
            for hidden, batch, state in seen:
                targets, weights = (torch.from_numpy(part).to(hidden) for part in (state.targets, state.weights * state.asked))
                value_loss(self.head(hidden)[:, 0][batch.predictor], targets, weights).backward()  # type: ignore[no-untyped-call]
            for parameter in self.head.parameters():
                if parameter.grad is None:
                    parameter.grad = torch.zeros_like(parameter)
                if self._ranks.world_size > 1:
                    dist.all_reduce(parameter.grad)
            self._optimizer.step()
            self.num_updates += 1

    def tensors(self) -> dict[str, Tensor]:
        """Everything that the next update depends on, on the CPU."""
        found = {f"head.{name}": value.detach().cpu().clone() for name, value in self.head.named_parameters()}
        found["num_updates"] = torch.tensor(self.num_updates)
        for name, parameter in self.head.named_parameters():
            for part, value in self._optimizer.state.get(parameter, {}).items():
                found[f"optimizer.{name}.{part}"] = value.detach().cpu().clone()
        return found

    @torch.no_grad()
    def load(self, tensors: Mapping[str, Tensor]) -> None:
        """Go on from what `tensors` gave; an empty mapping begins anew."""
        self.begin()
        if not tensors:
            return
        self.num_updates = int(tensors["num_updates"])
        for name, parameter in self.head.named_parameters():
            parameter.copy_(tensors[f"head.{name}"])
            prefix = f"optimizer.{name}."
            parts = {key.removeprefix(prefix): value.clone() for key, value in tensors.items() if key.startswith(prefix)}
            self._optimizer.state[parameter] = {
                part: value if part == "step" else value.to(parameter.device) for part, value in parts.items()
            }


@dataclass(slots=True, frozen=True)
class _State:
    """By token of a microbatch [M]: whether GAE is asked for, A_t, R_t, V(s_t), w_t."""

    asked: NDArray[np.bool_]
    advantages: Floats
    targets: Floats
    values: Floats
    weights: Floats


def value_loss(values: Tensor, targets: Tensor, weights: Tensor) -> Tensor:
    """½ Σ w_t (V(s_t) − R_t)²; all [M]."""
    return 0.5 * (weights * (values - targets) ** 2).sum()


def read_critic(version: Path) -> dict[str, Tensor]:
    """The critic beside a version; empty where there is none."""
    from safetensors.torch import load_file

    return load_file(version / CRITIC) if (version / CRITIC).exists() else {}


def _gathered(ranks: Ranks, states: Sequence[_State]) -> dict[str, float] | None:
    """Spread of the advantages and fit of the values over all ranks; None without a token."""
    own = [np.stack([s.advantages[s.asked], s.targets[s.asked], s.values[s.asked], s.weights[s.asked]]) for s in states]
    whole = np.concatenate([part for rank in ranks.gather(own) for part in rank] or [np.empty((4, 0))], axis=1)
    if not whole.shape[1]:
        return None
    advantages, targets, values, weights = whole
    variance = float(targets.var())
    squared = float(((targets - values) ** 2).mean())
    return {
        "spread": float(np.sqrt((advantages**2).mean())),
        "mean": float(np.average(targets, weights=weights)),
        "error": float(np.sqrt(squared)),
        "explained": 1.0 - squared / variance if variance > 0 else 0.0,
    }

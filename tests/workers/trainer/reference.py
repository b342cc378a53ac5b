"""The trainer's arithmetic a second time: float64, numpy, one token and one trajectory at a time, from the papers' formulas."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from workers.trainer.objective import Objective

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Token:
    """One trained token: logprobs under the policy in training, the proximal one, the one that sampled it and the reference."""

    logprob: float
    proximal: float
    behaviour: float
    reference: float
    advantage: float
    weight: float


def token_loss(token: Token, objective: Objective, with_reference: bool) -> tuple[float, float]:
    """A token's share of the loss, and its derivative by the token's logprob."""
    ratio = math.exp(token.logprob - token.proximal)
    beta = math.exp(token.proximal - token.behaviour)
    if objective.behaviour_weight == "none":
        beta = 1.0
    elif objective.behaviour_weight == "truncate":
        beta = min(beta, objective.behaviour_cap)
    elif not 1 / objective.behaviour_cap <= beta <= objective.behaviour_cap:
        beta = 0.0
    bounded = min(max(ratio, 1 - objective.clip_low), 1 + objective.clip_high)
    flat = bounded * token.advantage < ratio * token.advantage
    surrogate = (bounded if flat else ratio) * token.advantage
    slope = 0.0 if flat else ratio * token.advantage
    loss, derivative = -token.weight * beta * surrogate, -token.weight * beta * slope
    if with_reference:
        log_ratio = token.reference - token.logprob
        loss += objective.kl_coef * token.weight * (math.exp(log_ratio) - 1 - log_ratio)
        derivative += objective.kl_coef * token.weight * (1 - math.exp(log_ratio))
    return loss, derivative


def log_softmax(logits: Floats, temperature: float) -> Floats:
    """[V] logprobs of one distribution."""
    scaled = logits / temperature
    top = scaled.max()
    return scaled - top - math.log(float(np.exp(scaled - top).sum()))


def without(values: Sequence[float], place: int) -> list[float]:
    """All but one."""
    return [value for index, value in enumerate(values) if index != place]


def running_baseline(rewards: Sequence[float], weight: float, mean: float, decay: float) -> list[float | None]:
    """Each reward less the weighted mean of all the others and of what came before."""
    result: list[float | None] = []
    for place, reward in enumerate(rewards):
        others = without(rewards, place)
        total = decay * weight + len(others)
        result.append(reward - (decay * weight * mean + sum(others)) / total if total > 0 else None)
    return result


def group_advantages(rewards: Sequence[float], estimator: str, floor: float) -> list[float]:
    """GRPO and REINFORCE++ within one group: centred by the mean of all, over the standard deviation; RLOO by the others' mean."""
    if estimator == "rloo":
        return [reward - float(np.mean(without(rewards, place))) for place, reward in enumerate(rewards)]
    deviation = max(float(np.std(rewards)), floor)
    return [(reward - float(np.mean(rewards))) / deviation for reward in rewards]


def gae_advantages(rewards: Sequence[float], values: Sequence[float], decay: Sequence[float], lam: float) -> list[float]:
    """GAE (arXiv 1506.02438, equation 16) as the sum it is: A_t = Σ_l λ^l (Π γ) δ_{t+l}, until nothing follows."""
    result = []
    for start in range(len(rewards)):
        total, kept = 0.0, 1.0
        for place in range(start, len(rewards)):
            following = values[place + 1] if decay[place] else 0.0
            total += kept * (rewards[place] + decay[place] * following - values[place])
            kept *= lam * decay[place]
        result.append(total)
    return result

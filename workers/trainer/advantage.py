"""A running baseline per agent: for agents whose every trajectory is a group of one.

Centring a group of one gives no signal, and raw rewards push every sampled token up or down together. Here the baseline of a
trajectory is the weighted mean of everything known about its agent's rewards *except its own*: earlier batches, decayed, and the
other trajectories of its batch (leave-one-out; RLOO, arXiv 2402.14740). As it never includes the reward it is subtracted from, the
policy gradient stays unbiased. The result is divided by a running scale, one number per agent and batch, which changes the
length of a step and not its direction. Owns this state; not owned: what a reward is (`credit`), the other
estimators (`comparison`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import msgspec


class AgentBaseline(msgspec.Struct, frozen=True):
    """What earlier batches say about one agent: `weight` rewards' worth of evidence with this `mean`, and the mean square
    of their centred rewards with its own weight (a first reward ever has nothing to be centred by)."""

    weight: float = 0.0
    mean: float = 0.0
    square_weight: float = 0.0
    mean_square: float = 0.0


Baselines = Mapping[str, AgentBaseline]


class Centred(msgspec.Struct, frozen=True):
    """The baseline of each reward of one agent; None where there was nothing to compare with."""

    baselines: list[float | None]
    state: AgentBaseline
    scale: float


def centre(rewards: Sequence[float], state: AgentBaseline, decay: float, scale_floor: float) -> Centred:
    """Centre one agent's rewards of one batch and move its baseline on.

    `decay` in [0, 1) is what a batch's evidence keeps of its weight at each later batch; `scale_floor` bounds the scale from
    below, so that noise is not blown up once nearly all rewards are equal.
    """
    total, earlier = math.fsum(rewards), decay * state.weight
    others = earlier + len(rewards) - 1
    baselines = [(earlier * state.mean + total - r) / others if others > 0 else None for r in rewards]
    squares = [(r - b) ** 2 for r, b in zip(rewards, baselines, strict=True) if b is not None]
    square_weight = decay * state.square_weight + len(squares)
    mean_square = 0.0
    if square_weight > 0:
        mean_square = (decay * state.square_weight * state.mean_square + math.fsum(squares)) / square_weight
    weight = earlier + len(rewards)
    mean = (earlier * state.mean + total) / weight
    return Centred(baselines, AgentBaseline(weight, mean, square_weight, mean_square), max(scale_floor, math.sqrt(mean_square)))

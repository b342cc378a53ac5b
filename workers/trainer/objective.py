"""The constants of the objective whose formula is in `loss`; apart from it, so that settings need no torch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

BehaviourWeight = Literal["truncate", "mask", "none"]


@dataclass(slots=True, frozen=True)
class Objective:
    """The constants of the objective: ε_low, ε_high, C, what happens beyond C (or "none": β = 1), and the coefficient of the KL."""

    clip_low: float
    clip_high: float
    behaviour_cap: float
    behaviour_weight: BehaviourWeight
    kl_coef: float

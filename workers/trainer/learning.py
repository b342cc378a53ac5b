"""How one agent's trajectories are learned from: what may differ between agents of one trainer. Needs no torch."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

from workers.trainer.comparison import Estimator
from workers.trainer.credit import CreditRule


class Learning(BaseModel):
    """The defaults suit an agent whose every trajectory is on its own and gets one reward."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)

    advantage: Estimator = "baseline"
    """What a reward is compared with: the agent's running baseline, its rollout group (`group`, `rloo`), the batch; or a value
    head (`gae`)."""
    credit: CreditRule = "trajectory"
    """Which rewards a turn answers for: all of the trajectory's, its own and later ones, the discounted end, or both."""
    discount: float = Field(default=1.0, gt=0, le=1)
    """What a reward keeps of itself for each turn that it came later; not used by credit `trajectory`."""


class ValueHead(BaseModel):
    """The value head that agents with the advantage `gae` share; without one of those there is none."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)

    gae_lambda: float = Field(default=0.95, ge=0, le=1)
    """λ per token: 1 waits for the rewards themselves (no bias, more variance), 0 trusts the head alone."""
    learning_rate: float = Field(default=1e-3, gt=0)
    """AdamW's rate for the head."""
    passes: int = Field(default=4, ge=1)
    """Updates of the head on each batch; its hidden states are at hand, so they cost next to nothing."""

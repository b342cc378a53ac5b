"""How one agent's trajectories are learned from: what may differ between agents of one trainer. Needs no torch."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

from workers.trainer.comparison import Estimator
from workers.trainer.credit import CreditRule


class Learning(BaseModel):
    """The defaults suit an agent whose every trajectory is on its own and gets one reward."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)

    advantage: Estimator = "baseline"
    """What a reward is compared with: the agent's running baseline, its rollout group (`group`, `rloo`), or the batch."""
    credit: CreditRule = "trajectory"
    """Which rewards a turn answers for: all of the trajectory's, its own and later ones, the discounted end, or both."""
    discount: float = Field(default=1.0, gt=0, le=1)
    """What a reward keeps of itself for each turn that it came later; not used by credit `trajectory`."""

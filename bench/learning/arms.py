"""The arms: what each does differently from learning online, and nothing else."""

from dataclasses import dataclass
from typing import Final

from workers.trainer.objective import BehaviourWeight


@dataclass(slots=True, frozen=True)
class Arm:
    """`lag` versions lie between what samples and what is trained, `delay` batches between an answer and its reward;
    `altered` is the share of tokens overwritten, `offline` samples everything from v000000, `shuffled` gives each reward to another
    answer. `max_staleness` None: whatever the data needs; else the trainer's own limit.
    """

    name: str
    learns: bool = True
    lag: int = 0
    delay: int = 0
    altered: float = 0.0
    offline: bool = False
    shuffled: bool = False
    correction: BehaviourWeight = "truncate"
    max_staleness: int | None = None


ONLINE: Final = "online"
ARMS: Final = (
    Arm("frozen", learns=False),
    Arm(ONLINE),
    Arm("rewards shuffled", shuffled=True),
    Arm("stale 0, uncorrected", correction="none"),
    Arm("stale 2", lag=2),
    Arm("stale 2, uncorrected", lag=2, correction="none"),
    Arm("stale 8", lag=8),
    Arm("stale 8, uncorrected", lag=8, correction="none"),
    Arm("altered 5 %", altered=0.05),
    Arm("altered 20 %", altered=0.20),
    Arm("delay 5", delay=5),
    Arm("delay 50", delay=50),
    Arm("delay 5, limit 2", delay=5, max_staleness=2),
    Arm("delay 50, limit 2", delay=50, max_staleness=2),
    Arm("offline", offline=True),
    Arm("offline, uncorrected", offline=True, correction="none"),
)

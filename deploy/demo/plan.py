"""What one demo does, and what it found: plain data."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal

from deploy.launcher.options import SMOLLM2
from deploy.paths import Paths

Arm = Literal["online", "control"]

TENANT: Final = "demo"
LEARNER: Final = "triage"
EXAMINEE: Final = "triage-exam"
"""The agent's second key: what it answers in the exam is recorded, and never trained on."""
DESK: Final = "customer-desk"
"""The user's key: it rewards, and calls no model."""
CONSENT_REASON: Final = "headrace demo: invented tickets, recorded and trained on for show"
NO_TRAINING_REASON: Final = "headrace demo: recorded, not trained on"

GOAL: Final = 0.30
"""Absolute rise of held-out success that a run is there to show."""
NUM_STEPS: Final = 12
NUM_HELD_OUT: Final = 80
ENOUGH: Final = 0.75


@dataclass(slots=True, frozen=True)
class DemoPlan:
    """``num_steps`` training steps per arm at most, fewer once more than ``enough`` of the last answers succeeded; ``num_held_out``
    answers per exam.

    The agent keeps ``concurrency`` tickets open; its user rewards an answer some seconds later, ``reward_delay_s`` at least and at
    most; a phase that brings nothing for ``patience_s`` seconds has failed.
    """

    seed: int
    arms: tuple[Arm, ...]
    directory: Path
    num_steps: int
    num_held_out: int
    keep: bool
    enough: float = ENOUGH
    model: str = SMOLLM2
    concurrency: int = 32
    reward_delay_s: tuple[float, float] = (1.0, 3.0)
    patience_s: float = 300.0

    def paths(self, arm: Arm) -> Paths:
        """Where the Headrace of an arm lives."""
        return Paths(self.directory / arm / "data", self.directory / arm / "config")

    @property
    def must_learn(self) -> bool:
        """Whether it has to reach the goal: with the model that can, and with no less of anything than is done by default."""
        is_whole = self.num_steps >= NUM_STEPS and self.num_held_out >= NUM_HELD_OUT and self.enough >= ENOUGH
        return self.model == SMOLLM2 and is_whole


@dataclass(slots=True, frozen=True)
class Exam:
    """Held-out answers at the agent's own sampling: how many succeeded, how many of the others had the form for which there is
    partial credit, of how many.
    """

    num_successes: int
    num_partial: int
    n: int

    @property
    def share(self) -> float:
        """Successes per answer."""
        return self.num_successes / self.n

    @property
    def partial_share(self) -> float:
        """Answers that earned partial credit alone, per answer."""
        return self.num_partial / self.n


@dataclass(slots=True, frozen=True)
class Answer:
    """One answered ticket: the completion that ended it, whether it was right, whether it earned `partial` credit instead, and
    whether the ticket held personal details.
    """

    completion_id: str
    success: bool
    partial: bool
    personal: bool


@dataclass(slots=True, frozen=True)
class Swap:
    """One version that came to serve. Times in seconds. ``logprob_diff_median`` is None where a batch held no token to compare:
    sampled by the very weights that the step began with, in a context without redacted ids.
    """

    version: str
    num_in_flight: int
    num_aborted: int
    paused_s: float
    logprob_diff_median: float | None


@dataclass(slots=True, frozen=True)
class Share:
    """``num_trainable`` of ``n`` answers may be trained on."""

    num_trainable: int
    n: int


@dataclass(slots=True)
class ArmResult:
    """What one arm showed. Of ``num_answers`` while it learned, ``num_right`` were right and ``num_partial`` earned partial credit.
    ``rewards`` maps a version to (mean, number) of what its answers were given.
    """

    arm: Arm
    seconds: float = 0.0
    before: Exam | None = None
    after: Exam | None = None
    num_answers: int = 0
    num_right: int = 0
    num_partial: int = 0
    swaps: list[Swap] = field(default_factory=list)
    rewards: dict[str, tuple[float, int]] = field(default_factory=dict)
    num_events: int = 0
    redactions: dict[str, int] = field(default_factory=dict)
    trainable: Share = field(default_factory=lambda: Share(0, 0))
    trainable_personal: Share = field(default_factory=lambda: Share(0, 0))
    refused: dict[str, int] = field(default_factory=dict)
    num_values_searched: int = 0
    num_values_found: int = 0
    places_found: list[str] = field(default_factory=list)
    planted_found: bool = False

"""What travels about reward rules of agents: windows, built-in sources, judges; and feedback that waits or was given up.

Made by the CLI, kept by ``dataproxy.rewards``, read by leases (``dataproxy.lease.windows``). Times are UTC µs.
"""

from typing import Annotated

import msgspec
from msgspec import UNSET, Meta, UnsetType

from dataproxy.client.types import FeedbackReceipt

Seconds = Annotated[float, Meta(ge=0, le=31_536_000)]
Value = Annotated[float, Meta(ge=-1_000_000, le=1_000_000)]
Name = Annotated[str, Meta(min_length=1, max_length=64)]


class JudgeSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A next-state judge: any model behind an OpenAI-compatible ``base_url`` (with its /v1).

    ``key_env`` names the data proxy's environment variable that holds its key (HEADRACE_JUDGE_…; "": none). ``votes`` answers are
    drawn at ``temperature``; more than half must say the same for it to count. Prices are US dollars a million tokens.
    """

    base_url: Annotated[str, Meta(pattern=r"^https?://[^\s]+$", max_length=512)]
    model: Annotated[str, Meta(min_length=1, max_length=256)]
    key_env: Annotated[str, Meta(pattern=r"^(HEADRACE_JUDGE_[A-Z0-9_]+)?$", max_length=128)] = ""
    votes: Annotated[int, Meta(ge=1, le=15)] = 3
    temperature: Annotated[float, Meta(ge=0, le=2)] = 0.7
    timeout_s: Annotated[float, Meta(gt=0, le=600)] = 30.0
    max_tokens: Annotated[int, Meta(ge=1, le=4096)] = 256
    max_concurrency: Annotated[int, Meta(ge=1, le=64)] = 4
    max_attempts: Annotated[int, Meta(ge=1, le=10)] = 3
    weight: Value = 1.0
    usd_in: Annotated[float, Meta(ge=0)] = 0.0
    usd_out: Annotated[float, Meta(ge=0)] = 0.0


class Sources(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Built-in sources of rewards; None or empty: off.

    ``tool_failure`` is the value for the turn whose tool call failed, ``user_correction`` for a turn that the user's next message
    corrects. Results of tools named in ``tests`` are read as test runs: the share that passed, times ``test_weight``.
    """

    tool_failure: Value | None = None
    user_correction: Value | None = None
    tests: Annotated[list[Name], Meta(max_length=32)] = []
    test_weight: Value = 1.0
    judge: JudgeSettings | None = None

    def any(self) -> bool:
        """Whether one of them is on."""
        return self.tool_failure is not None or self.user_correction is not None or bool(self.tests) or self.judge is not None


class AgentRule(msgspec.Struct, frozen=True):
    """What an agent's trajectories wait for, as it holds now.

    ``settle_s``: seconds without a call; ``default_settle_s`` where it is None. ``terminal``: the reward name that ends a
    trajectory; None: any. ``deadline_s``: seconds after the last call when the wait ends; None: never. ``deadline_value``: what a
    trajectory is given that nobody rewarded by then; None: it never trains. ``group_wait_s``: seconds after its last call that an
    attempt waits for the others of its group; None: 600.
    """

    tenant: str
    agent: str
    settle_s: float | None
    default_settle_s: float
    terminal: str | None
    deadline_s: float | None
    deadline_value: float | None
    sources: Sources
    group_wait_s: float | None = None


class AgentChange(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """New rules for an agent; what is left out stays, null goes back to the default."""

    tenant: str
    agent: str
    settle_s: Seconds | UnsetType | None = UNSET
    terminal: Name | UnsetType | None = UNSET
    deadline_s: Seconds | UnsetType | None = UNSET
    deadline_value: Value | UnsetType | None = UNSET
    group_wait_s: Seconds | UnsetType | None = UNSET
    sources: Sources | UnsetType | None = UNSET


class FeedbackFault(msgspec.Struct, frozen=True):
    """Why one of a batch was not taken, in the words that it would have had alone."""

    code: str
    message: str


class FeedbackOutcome(msgspec.Struct, frozen=True, omit_defaults=True):
    """What became of one of a batch; ``status`` as HTTP has it: 200 stored, 202 pending, else ``error`` says why not."""

    status: int
    receipt: FeedbackReceipt | None = None
    error: FeedbackFault | None = None


class FeedbackReceipts(msgspec.Struct, frozen=True):
    """The outcome of each of a batch, in its order."""

    outcomes: list[FeedbackOutcome]


class DeadLetter(msgspec.Struct, frozen=True):
    """A reward that waited in vain for its exchange."""

    letter_id: str
    tenant: str
    target_id: str
    name: str
    value: float | None
    source: str
    reason: str
    received_us: int
    created_us: int


class Retried(msgspec.Struct, frozen=True):
    """What became of a dead letter that was tried again: stored, or it waits once more."""

    letter_id: str
    status: str

"""Rewards: events of their own that point at what they reward, and the pure function that gives their effect.

A late reward never rewrites anything. The effective reward of a trajectory is a function of the reward events seen by a given
time, so any past training batch can be rebuilt.
"""

from collections.abc import Iterable
from typing import Literal

import msgspec

Source = Literal["user", "test", "judge", "human", "environment", "next_state"]
TargetKind = Literal["event", "turn", "trajectory", "session"]


class Reward(msgspec.Struct, frozen=True, omit_defaults=True):
    """One reward as received. Made by ``POST /v1/feedback``, read by assembly and the trainer.

    ``target_id`` is an event, trajectory or session id inside ``tenant``, or a turn, which is one choice of an event:
    ``<event>#<choice>``; ``supersedes`` is the reward id it replaces;
    ``received_us`` is UTC µs.
    """

    reward_id: str
    tenant: str
    target_kind: TargetKind
    target_id: str
    name: str
    value: float
    source: Source
    received_us: int
    explanation: str | None = None
    idempotency_key: str | None = None
    supersedes: str | None = None


def turn_id(event_id: str, choice: int) -> str:
    """The name of one choice of an event as the target of a reward."""
    return f"{event_id}#{choice}"


def event_of(target_kind: str, target_id: str) -> str:
    """The event that a target of kind event or turn is, or is a choice of."""
    return target_id.rpartition("#")[0] if target_kind == "turn" else target_id


def effective_reward(rewards: Iterable[Reward], as_of_us: int | None = None) -> float | None:
    """The sum of the rewards that count at ``as_of_us``; None when there is none."""
    counting = rewards_that_count(rewards, as_of_us)
    return sum(reward.value for reward in counting) if counting else None


def rewards_that_count(rewards: Iterable[Reward], as_of_us: int | None = None) -> list[Reward]:
    """Of each (target, name) the latest that stands at ``as_of_us``.

    A reward stands if it was received by then and no standing reward supersedes it. For one (target, name) the latest counts, so
    a user who changes a rating does not add to it; different names and different targets (turns) add up.
    """
    seen = [r for r in rewards if as_of_us is None or r.received_us <= as_of_us]
    replaced = {r.supersedes for r in seen if r.supersedes is not None}
    latest: dict[tuple[str, str, str], Reward] = {}
    for reward in sorted(seen, key=lambda r: (r.received_us, r.reward_id)):
        if reward.reward_id not in replaced:
            latest[reward.target_kind, reward.target_id, reward.name] = reward
    return list(latest.values())

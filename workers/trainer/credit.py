"""Credit: what each turn of a trajectory has to answer for.

A reward given to a call belongs to its turn, or to the turn of each of its choices; one given to a choice to that alone. One given
to the session or the trajectory, or to what is not trained on, comes at the end. From these the return of a turn is, by the
agent's setting:

    trajectory   everything, whenever it came: all turns of a trajectory are one action
    turns        Σ γ^(distance) · reward of the turn itself and of the turns that follow it
    terminal     γ^(distance to the end) · (the sum of all rewards)
    both         as `turns`, and γ^(distance to the end) · (the rewards at the end)

Distance is counted in turns along the branch. A turn that nothing rewards has no return and is not trained on: never a silent 0.
Owns the returns; not owned: what they are compared with (`advantage`, `comparison`). Pure.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from atdp.rewards import effective_reward, turn_id
from atdp.samples import TokenSequence, TrainSample, TurnSpan

CreditRule = Literal["trajectory", "turns", "terminal", "both"]
TurnKey = tuple[str, int]


@dataclass(slots=True, frozen=True)
class PerTurn:
    """One number to a turn: `by_turn` where it has its own, else `default`; None: the turn is not trained on.

    Example: `PerTurn(0.5)` is the same for all; `PerTurn(None, {("e1", 0): 1.0})` is for one turn alone.
    """

    default: float | None
    by_turn: Mapping[TurnKey, float] | None = None

    def of(self, turn: TurnSpan) -> float | None:
        """The number of `turn`."""
        return self.default if self.by_turn is None else self.by_turn.get(key_of(turn), self.default)

    def values(self) -> list[float]:
        """Each number once."""
        own = list((self.by_turn or {}).values())
        return own if self.default is None else [*own, self.default]


def key_of(turn: TurnSpan) -> TurnKey:
    """(event, choice)."""
    return turn.event_id, turn.choice


def returns(sample: TrainSample, rule: CreditRule, discount: float) -> PerTurn:
    """The return of each turn of `sample`; `discount` γ in (0, 1] is per turn."""
    if rule == "trajectory":
        return PerTurn(sample.reward)
    places = _places(sample)
    own = _own_rewards(sample, places)
    late = effective_reward(reward for reward in sample.rewards if reward.target_id not in own)
    end = sample.reward if rule == "terminal" else late if rule == "both" else None
    found = {}
    for place in places:
        parts = [] if rule == "terminal" else _following(place, places, own, discount)
        if end is not None:
            parts.append(end * discount ** _to_the_end(place, places))
        if parts:
            found[key_of(place[1])] = math.fsum(parts)
    return PerTurn(None, found)


def immediate(sample: TrainSample, rule: CreditRule) -> tuple[dict[TurnKey, float], float]:
    """What each turn earned when it was taken, and what came at the end: the rewards that GAE spreads by itself.

    `trajectory` and `terminal`: everything at the end; `turns`: each its own; `both`: its own, and the rest at the end.
    """
    if rule in ("trajectory", "terminal"):
        return {}, sample.reward
    places = _places(sample)
    own = _own_rewards(sample, places)
    late = effective_reward(reward for reward in sample.rewards if reward.target_id not in own)
    found = {key_of(turn): math.fsum(own[name] for name in own.keys() & set(_targets(turn))) for _, turn in places}
    return found, (late or 0.0) if rule == "both" else 0.0


def score(values: PerTurn) -> float:
    """What a trajectory counts for in the baselines of others: the mean over its turns."""
    numbers = values.values()
    return math.fsum(numbers) / len(numbers)


Place = tuple[TokenSequence, TurnSpan]


def _places(sample: TrainSample) -> list[Place]:
    """Each turn once, in the first sequence that has it."""
    found: dict[TurnKey, Place] = {}
    for sequence in sample.sequences:
        for turn in sequence.turns:
            found.setdefault(key_of(turn), (sequence, turn))
    return list(found.values())


def _own_rewards(sample: TrainSample, places: list[Place]) -> dict[str, float]:
    """The effective reward of each call and choice that has a turn here."""
    targets = {name for _, turn in places for name in _targets(turn)}
    given = targets & {reward.target_id for reward in sample.rewards if reward.target_kind in ("event", "turn")}
    values = {name: effective_reward(reward for reward in sample.rewards if reward.target_id == name) for name in given}
    return {name: value for name, value in values.items() if value is not None}


def _targets(turn: TurnSpan) -> tuple[str, str]:
    return turn.event_id, turn_id(turn.event_id, turn.choice)


def _distance(before: Place, after: Place, places: list[Place]) -> int | None:
    """Turns from one to the other along a branch, 0 for itself; None where `after` does not follow."""
    (left, start), (right, end) = before, after
    if start is end:
        return 0
    if end.start < start.end or left.token_ids[: 4 * start.end] != right.token_ids[: 4 * start.end]:
        return None
    return 1 + sum(1 for place in places if _between(place, before, after))


def _between(place: Place, before: Place, after: Place) -> bool:
    (sequence, turn), (_, start), (right, end) = place, before, after
    inside = start.end <= turn.start and turn.end <= end.start
    return inside and sequence.token_ids[: 4 * turn.end] == right.token_ids[: 4 * turn.end]


def _following(place: Place, places: list[Place], own: Mapping[str, float], discount: float) -> list[float]:
    """Discounted rewards of a turn and those after it; the reward of a call with several choices counts once."""
    nearest: dict[str, int] = {}
    for other in places:
        distance = _distance(place, other, places)
        if distance is not None:
            for name in own.keys() & set(_targets(other[1])):
                nearest[name] = min(nearest.get(name, distance), distance)
    return [own[name] * discount**distance for name, distance in sorted(nearest.items())]


def _to_the_end(place: Place, places: list[Place]) -> int:
    return max(distance for other in places if (distance := _distance(place, other, places)) is not None)

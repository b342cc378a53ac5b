"""Advantages of a batch: every trajectory compared with others, by its agent's estimator.

    group        (r − mean of the group) / its standard deviation (GRPO, arXiv 2402.03300, section 4.1.2)
    rloo         r − mean of the others of the group (arXiv 2402.14740)
    reinforce++  (r − mean of the batch) / its standard deviation (arXiv 2501.03262)
    baseline     r − running baseline of the agent, over a running scale (`advantage`)
    gae          by token, from a value head (`critic`); the running baseline until that has learned something

A mean that includes r is the mean of the others drawn towards r: r − mean = (G − 1)/G · (r − mean of the others). So each estimator
is a baseline without the reward it is subtracted from, and a scale. A group is what one agent's callers named as attempts at one
task, or what it sampled from one prompt, token for token, or the choices of one call; a trajectory alone in its group has nothing
there to compare with and takes the running baseline, which all rewards move.
With credit by turn, r in the means is a trajectory's score, and each turn's return is compared with the others' mean. Pure.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from atdp.samples import TrainSample
from workers.trainer.advantage import AgentBaseline, Baselines, centre
from workers.trainer.credit import PerTurn, TurnKey, score

Estimator = Literal["baseline", "group", "rloo", "reinforce++", "gae"]
GroupKey = tuple[str, str, str | bytes]


@dataclass(slots=True, frozen=True)
class Comparison:
    """What a return is compared with: advantage = (return − `baseline`) / `scale`; 0 where `baseline` is None."""

    baseline: float | None
    scale: float

    def of(self, value: float) -> float:
        """The advantage of a return."""
        return 0.0 if self.baseline is None else (value - self.baseline) / self.scale


@dataclass(slots=True, frozen=True)
class Contender:
    """A trajectory of the batch: whose it is (tenant and agent), what it may be grouped with, its score and its estimator."""

    agent: str
    group: GroupKey
    score: float
    estimator: Estimator


def group_of(sample: TrainSample) -> GroupKey:
    """Whose trajectory it is, and the group that its caller named, or else the prompt that it began with."""
    if sample.group:
        return sample.tenant, sample.agent, sample.group
    first = sample.sequences[0]
    sampled = first.mask().argmax() if not first.turns else min(turn.start for turn in first.turns)
    return sample.tenant, sample.agent, first.token_ids[: 4 * int(sampled)]


def compare(
    contenders: Sequence[Contender], baselines: Baselines, decay: float, scale_floor: float
) -> tuple[list[Comparison], dict[str, AgentBaseline]]:
    """A comparison for each contender, and the running baselines after the batch."""
    result, after = _running(contenders, baselines, decay, scale_floor)
    for place, one in enumerate(contenders):
        if one.estimator not in ("baseline", "gae"):
            others = [other.score for other in contenders if other is not one and _comparable(one, other)]
            if others:
                result[place] = _against(one, others, scale_floor)
    return result, after


def apply(comparison: Comparison, values: PerTurn) -> PerTurn:
    """The advantage of each turn from its return."""
    default = None if values.default is None else comparison.of(values.default)
    own: Mapping[tuple[str, int], float] | None = None
    if values.by_turn is not None:
        own = {key: comparison.of(value) for key, value in values.by_turn.items()}
    return PerTurn(default, own)


def among_siblings(advantages: PerTurn, values: PerTurn, one: Contender, scale_floor: float) -> PerTurn:
    """`advantages`, but choices of one call (n > 1) with returns of their own are each compared with the others of the call.

    They are a rollout group by themselves, for `group` and `rloo`, whatever other trajectories there are.
    """
    if one.estimator not in ("group", "rloo") or values.by_turn is None:
        return advantages
    own = dict(advantages.by_turn or {})
    calls: dict[str, list[TurnKey]] = {}
    for key in values.by_turn:
        calls.setdefault(key[0], []).append(key)
    for keys in calls.values():
        for key in keys if len(keys) > 1 else ():
            value, others = values.by_turn[key], [values.by_turn[other] for other in keys if other != key]
            own[key] = _against(replace(one, score=value), others, scale_floor).of(value)
    return PerTurn(advantages.default, own)


def contender(sample: TrainSample, values: PerTurn, estimator: Estimator) -> Contender:
    """How a sample with these returns takes part."""
    return Contender(f"{sample.tenant}/{sample.agent}", group_of(sample), score(values), estimator)


def _comparable(one: Contender, other: Contender) -> bool:
    if one.estimator != other.estimator:
        return False
    return one.estimator == "reinforce++" or one.group == other.group


def _against(one: Contender, others: Sequence[float], scale_floor: float) -> Comparison:
    baseline = math.fsum(others) / len(others)
    if one.estimator == "rloo":
        return Comparison(baseline, 1.0)
    everyone = [one.score, *others]
    mean = math.fsum(everyone) / len(everyone)
    deviation = math.sqrt(math.fsum((value - mean) ** 2 for value in everyone) / len(everyone))
    return Comparison(baseline, max(scale_floor, deviation) * len(everyone) / len(others))


def _running(
    contenders: Sequence[Contender], baselines: Baselines, decay: float, scale_floor: float
) -> tuple[list[Comparison], dict[str, AgentBaseline]]:
    """The running baseline of each, whatever its estimator: also those that are in a group teach it."""
    after, result = dict(baselines), [Comparison(None, 1.0)] * len(contenders)
    for agent in dict.fromkeys(one.agent for one in contenders):
        places = [place for place, one in enumerate(contenders) if one.agent == agent]
        scores = [contenders[place].score for place in places]
        centred = centre(scores, baselines.get(agent, AgentBaseline()), decay, scale_floor)
        after[agent] = centred.state
        for place, value in zip(places, centred.baselines, strict=True):
            result[place] = Comparison(value, centred.scale)
    return result, after

"""Rows: the sequences of a batch as the trainer sees them, one gradient unit to a trajectory.

Owns the translation of leased samples into arrays: which tokens are trained on, with what weight. Not owned: which
samples enter a batch (`selection`), how rows share compute (`packing`). Place in the path: step 3, after the advantage.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from atdp.samples import TokenSequence, TrainSample
from workers.trainer.credit import PerTurn, key_of

Bools = NDArray[np.bool_]


@dataclass(slots=True, frozen=True)
class Episode:
    """What GAE needs to know of a trajectory: rewards by turn (event, choice), what came at the `end`, the `discount` per turn."""

    by_turn: Mapping[tuple[str, int], float]
    end: float
    discount: float


@dataclass(slots=True, frozen=True)
class Transitions:
    """By token of a row [L], 0 where it is not trained: `rewards` at the last token of what earned them, `decay` γ to the next
    trained token, 0 at the last."""

    rewards: NDArray[np.float32]
    decay: NDArray[np.float32]


@dataclass(slots=True, frozen=True)
class Row:
    """One sequence of L tokens, cut after its last trained one.

    `trained` [L] says which tokens carry loss (never the first: nothing predicts it); `behaviour` [L] are the engine's
    logprobs; `comparable` [L] says where engine and trainer must agree: sampled by the head's own weights, and no
    overwritten id before it. `advantages` [L] are constant over a turn. `weight` is the share of the batch's gradient that each
    trained token has.

    Example: two trajectories, one of 4 trained tokens and one of 2, give weights 1/8 and 1/4.
    """

    token_ids: NDArray[np.int32]
    trained: Bools
    behaviour: NDArray[np.float32]
    comparable: Bools
    weight: float
    advantages: NDArray[np.float32]
    temperature: float
    transitions: Transitions | None = None


def trained_mask(sequence: TokenSequence) -> Bools:
    """[L] bool: sampled by the policy, not overwritten by redaction, not first."""
    mask: Bools = sequence.mask() & (np.frombuffer(sequence.altered, np.uint8) == 0)
    mask[:1] = False
    return mask


def unique_masks(sample: TrainSample) -> list[Bools]:
    """The trained tokens of each sequence; a call that several leaves share is trained on in the first of them only."""
    seen: set[tuple[str, int]] = set()
    masks = []
    for sequence in sample.sequences:
        mask = trained_mask(sequence)
        for turn in sequence.turns:
            if key_of(turn) in seen:
                mask[turn.start : turn.end] = False
            seen.add(key_of(turn))
        masks.append(mask)
    return masks


def credited_masks(sample: TrainSample, values: PerTurn) -> list[Bools]:
    """`unique_masks` without the turns that have no number in `values`."""
    masks = unique_masks(sample)
    for sequence, mask in zip(sample.sequences, masks, strict=True):
        if values.default is None:
            inside = np.zeros_like(mask)
            for turn in sequence.turns:
                inside[turn.start : turn.end] = values.of(turn) is not None
            mask &= inside
    return masks


def build_rows(
    samples: Sequence[TrainSample],
    advantages: Sequence[PerTurn],
    head_index: int,
    episodes: Sequence[Episode | None] | None = None,
) -> list[Row]:
    """The rows of a batch; each of the N trajectories weighs 1/N in all, spread evenly over its unique trained tokens.

    `head_index` is the policy version whose weights the trainer holds. Samples without a trained token must be left
    out before. `episodes` are those of the samples whose advantages GAE will give.
    """
    rows: list[Row] = []
    for sample, advantage, episode in zip(samples, advantages, episodes or [None] * len(samples), strict=True):
        masks = credited_masks(sample, advantage)
        weight = 1.0 / (sum(int(mask.sum()) for mask in masks) * len(samples))
        for sequence, mask in zip(sample.sequences, masks, strict=True):
            if mask.any():
                row = _row(sequence, mask, weight, advantage, sample.temperature, head_index)
                rows.append(row if episode is None else replace(row, transitions=transitions(sequence, row.trained, episode)))
    return rows


def _row(sequence: TokenSequence, mask: Bools, weight: float, advantage: PerTurn, temperature: float, head_index: int) -> Row:
    end = int(np.flatnonzero(mask)[-1]) + 1
    advantages = np.full(len(mask), advantage.default or 0.0, np.float32)
    for turn in sequence.turns:
        advantages[turn.start : turn.end] = advantage.of(turn) or 0.0  # None is not in the mask
    untouched = np.cumsum(np.frombuffer(sequence.altered, np.uint8)[:end]) == 0
    return Row(
        token_ids=sequence.ids()[:end],
        trained=mask[:end],
        behaviour=sequence.behaviour_logprobs()[:end],
        comparable=mask[:end] & untouched & (sequence.version_indices()[:end] == head_index),
        weight=weight,
        advantages=advantages[:end],
        temperature=temperature,
    )


def transitions(sequence: TokenSequence, trained: Bools, episode: Episode) -> Transitions:
    """Where the rewards of an episode arrive along a row whose trained tokens are `trained` [L].

    A turn's reward arrives at its last trained token, or the last one before it; what came at the end at the row's last.
    """
    places = np.flatnonzero(trained)
    rewards, decay = np.zeros(len(trained), np.float32), np.zeros(len(trained), np.float32)
    turns = sorted(sequence.turns, key=lambda turn: turn.start)
    for turn in turns:
        earlier = places[places < turn.end]
        if len(earlier):
            rewards[earlier[-1]] += episode.by_turn.get(key_of(turn), 0.0)
    rewards[places[-1]] += episode.end
    number = np.searchsorted([turn.start for turn in turns], places, side="right")
    decay[places[:-1]] = episode.discount ** np.diff(number).astype(np.float64)
    return Transitions(rewards, decay)

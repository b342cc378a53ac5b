"""Sequences for the trainer: chains of calls joined by exact token prefix, each output trained once.

A trajectory's choices form a forest; each leaf gives one row, the leaf's own prompt and output, in which the outputs of the
calls it extends are found at the places where they were sampled.
"""

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from atdp.samples import SealedTokens, TokenSequence, TurnSpan

Choice = tuple[str, int]


@dataclass(slots=True, frozen=True)
class Segment:
    """One stored choice, masked: prompt_ids [P], output_ids [N] int32; logprobs [N] float32; versions [N] int32;
    prompt_altered [P], output_altered [N] uint8. ``parent`` is the choice that its prompt extends exactly. ``truncated``: cut by
    length; ``extended``: a later call names it as the turn before, be its ids the same or not. ``sealed``: its raw tokens, if kept.
    """

    event_id: str
    choice: int
    parent: Choice | None
    trainable: bool
    prompt_ids: NDArray[np.int32]
    output_ids: NDArray[np.int32]
    logprobs: NDArray[np.float32]
    versions: NDArray[np.int32]
    prompt_altered: NDArray[np.uint8]
    output_altered: NDArray[np.uint8]
    truncated: bool = False
    extended: bool = False
    sealed: bytes = b""

    @property
    def key(self) -> Choice:
        """(event, choice)."""
        return self.event_id, self.choice


def build_sequences(segments: Sequence[Segment], turn_rewards: Mapping[Choice, float]) -> list[TokenSequence]:
    """One row a leaf that trains something; ``turn_rewards`` maps a choice to its own effective reward.

    An output shared by several leaves is in the loss of the first only. The mask is 0 on altered ids.
    """
    by_key = {segment.key: segment for segment in segments}
    extended = {segment.parent for segment in segments}
    emitted: set[Choice] = set()
    rows = []
    for leaf in segments:
        if leaf.key in extended:
            continue
        path = _path(leaf, by_key)
        fresh = [segment for segment in path if segment.trainable and segment.key not in emitted]
        emitted.update(segment.key for segment in fresh)
        if fresh:
            rows.append(_row(leaf, path, [_span(one, turn_rewards, extended) for one in fresh]))
    return rows


def _path(leaf: Segment, by_key: Mapping[Choice, Segment]) -> list[Segment]:
    path = [leaf]
    while path[-1].parent is not None:
        path.append(by_key[path[-1].parent])
    return path[::-1]


def _span(segment: Segment, turn_rewards: Mapping[Choice, float], joined: Set[Choice | None]) -> TurnSpan:
    start = len(segment.prompt_ids)
    return TurnSpan(
        event_id=segment.event_id,
        start=start,
        end=start + len(segment.output_ids),
        reward=turn_rewards.get(segment.key),
        choice=segment.choice,
        truncated=segment.truncated,
        extended=segment.extended or segment.key in joined,
    )


def _row(leaf: Segment, path: list[Segment], turns: list[TurnSpan]) -> TokenSequence:
    fresh = {(turn.event_id, turn.choice) for turn in turns}
    ids = np.concatenate((leaf.prompt_ids, leaf.output_ids))
    altered = np.concatenate((leaf.prompt_altered, leaf.output_altered))
    mask = np.zeros(len(ids), np.uint8)
    logprobs = np.zeros(len(ids), np.float32)
    versions = np.full(len(ids), -1, np.int32)
    for segment in path:
        start = len(segment.prompt_ids)
        end = start + len(segment.output_ids)
        hidden = segment.output_altered != 0
        ids[start:end][hidden] = segment.output_ids[hidden]
        altered[start:end] |= segment.output_altered
        versions[start:end] = segment.versions
        if segment.key in fresh:
            kept = altered[start:end] == 0
            mask[start:end] = kept
            logprobs[start:end] = np.where(kept, segment.logprobs, 0)
    sealed = [SealedTokens(one.event_id, one.choice, len(one.prompt_ids), one.sealed) for one in path if one.sealed]
    sequence = TokenSequence(
        ids.astype("<i4").tobytes(),
        mask.tobytes(),
        logprobs.astype("<f4").tobytes(),
        versions.astype("<i4").tobytes(),
        altered.astype(np.uint8).tobytes(),
        turns,
        sealed,
    )
    sequence.validate()
    return sequence

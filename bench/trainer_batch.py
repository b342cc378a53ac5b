"""Batches as production has them, for ``bench.trainer``: sessions of several turns joined by prefix, under one system prompt."""

import numpy as np

from atdp.samples import TokenSequence, TrainSample, TurnSpan
from workers.trainer.credit import PerTurn
from workers.trainer.rows import Row, build_rows

SYSTEM, USER, ANSWER = 120, 40, 24
"""Tokens of the system prompt, of what a turn adds to the prompt, and of its answer."""


def make_rows(num: int, turns: int, vocabulary: int) -> list[Row]:
    """The rows of `num` sessions of `turns` turns each, advantages of both signs."""
    random = np.random.default_rng(0)
    system = random.integers(3, vocabulary, SYSTEM)
    samples = [_session(f"s{index}", turns, system, vocabulary, random) for index in range(num)]
    return build_rows(samples, [PerTurn(float(value)) for value in random.normal(size=num)], head_index=0)


def joined_token_ratio(turns: int) -> float:
    """Tokens of a session with a row for each call, over those of its joined row."""
    sample = _session("s", turns, np.full(SYSTEM, 3), 100, np.random.default_rng(0))
    (sequence,) = sample.sequences
    return sum(turn.end for turn in sequence.turns) / len(sequence)


def _session(name: str, turns: int, system: np.ndarray, vocabulary: int, random: np.random.Generator) -> TrainSample:
    ids, spans = [system], []
    length = len(system)
    for turn in range(turns):
        ids.append(random.integers(3, vocabulary, USER + ANSWER))
        length += USER + ANSWER
        spans.append(TurnSpan(f"{name}-{turn}", length - ANSWER, length))
    mask, versions = np.zeros(length, np.uint8), np.full(length, -1, "<i4")
    for span in spans:
        mask[span.start : span.end], versions[span.start : span.end] = 1, 0
    logprobs = np.where(mask, -np.log(vocabulary), 0).astype("<f4")
    token_ids, altered = np.concatenate(ids).astype("<i4"), np.zeros(length, np.uint8)
    chain = TokenSequence(token_ids.tobytes(), mask.tobytes(), logprobs.tobytes(), versions.tobytes(), altered.tobytes(), spans)
    return TrainSample(name, "bench", "bench", name, 1.0, 1.0, [], [chain])

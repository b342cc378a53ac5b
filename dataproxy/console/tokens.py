"""The engine's tokens of one choice as a strip: id, log-probability, version, and whether the trainer learns from it. Pure."""

from dataclasses import dataclass

import numpy as np

from atdp.events import TokenRecord
from atdp.versions import version_name

PAGE = 600
_BUCKETS = (-0.02, -0.1, -0.3, -0.7, -1.2, -2.0, -3.0, -5.0)


@dataclass(slots=True, frozen=True)
class Token:
    """``heat`` 0 (certain) to 8 (a surprise) buckets the natural log-probability; ``trained``: its loss mask is 1."""

    index: int
    id: int
    logprob: float
    heat: int
    version: str
    altered: bool
    trained: bool


@dataclass(slots=True, frozen=True)
class Strip:
    """Some tokens of a choice, and counts of all of them. ``mean_logprob`` is over those that the trainer learns from."""

    choice: int
    num_prompt: int
    num_prompt_altered: int
    num_output: int
    num_altered: int
    mean_logprob: float | None
    tokenizer: str
    finish_reason: str
    tokens: list[Token]
    next_start: int | None


def strip(record: TokenRecord, start: int = 0) -> Strip:
    """The tokens of ``record`` from output index ``start`` on, at most PAGE of them."""
    ids, logprobs = np.frombuffer(record.output_ids, "<i4"), np.frombuffer(record.logprobs, "<f4")
    versions, altered = np.frombuffer(record.versions, "<i4"), np.frombuffer(record.output_altered, np.uint8)
    learned = logprobs[altered == 0] if len(logprobs) == len(altered) else logprobs[:0]
    names: dict[int, str] = {}
    tokens = [
        Token(
            i,
            int(ids[i]),
            float(logprobs[i]),
            heat_of(float(logprobs[i])),
            names.setdefault(int(versions[i]), version_name(max(int(versions[i]), 0))),
            bool(altered[i]),
            not altered[i],
        )
        for i in range(start, min(start + PAGE, len(ids)))
    ]
    return Strip(
        record.choice,
        len(record.prompt_ids) // 4,
        int(np.frombuffer(record.prompt_altered, np.uint8).sum()),
        len(ids),
        int(altered.sum()),
        float(learned.mean()) if len(learned) else None,
        record.tokenizer,
        record.finish_reason or "",
        tokens,
        start + PAGE if start + PAGE < len(ids) else None,
    )


def heat_of(logprob: float) -> int:
    """The bucket of a natural log-probability."""
    return sum(logprob < bound for bound in _BUCKETS)

"""The engine's stand-in: samples answers from the weights of a version and records them as the engine's plug-in would.

In this process, so that a hundred runs fit into minutes. Owns sampling, redaction of what was sampled and the training samples made
of it, by the data proxy's own assembly. Its logprobs are the trainer's
(`logprob_diff_median` of each run), and those a real engine's (``tests/workers/inference/test_agreement.py``).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.random import Generator
from numpy.typing import NDArray
from torch import Tensor

from atdp.samples import TrainSample
from bench.learning.task import ANSWER_TOKENS, END, PROMPT_TOKENS, RESERVED, Ids, Tickets, reward_of
from dataproxy.assemble.sequences import Segment, build_sequences

Weights = Mapping[str, Tensor]
_SPAN = 2


@dataclass(slots=True, frozen=True)
class Answers:
    """`ids` [N] answers and `logprobs` [N] of their tokens, as sampled at temperature 1; `rewards` [N]."""

    ids: list[Ids]
    logprobs: list[NDArray[np.float32]]
    rewards: list[float]


class Sampler:
    """One plain model whose weights are set before each call."""

    def __init__(self, directory: Path) -> None:
        from transformers import AutoModelForCausalLM

        self._model = AutoModelForCausalLM.from_pretrained(directory, dtype=torch.float32, attn_implementation="eager").eval()

    @torch.no_grad()
    def answer(self, weights: Weights, asked: Tickets, seed: int) -> Answers:
        """Sample an answer to each ticket."""
        self._model.load_state_dict(weights, strict=False)  # a version's file leaves the tied head out
        random = torch.Generator().manual_seed(seed)
        ids = torch.from_numpy(asked.prompts).long()
        logprobs = torch.empty(len(ids), 0)
        for _ in range(ANSWER_TOKENS):
            found = torch.log_softmax(self._model(input_ids=ids).logits[:, -1], -1)
            token = torch.multinomial(found.exp(), 1, generator=random)
            ids, logprobs = torch.cat([ids, token], 1), torch.cat([logprobs, found.gather(1, token)], 1)
        sampled = ids[:, PROMPT_TOKENS:].numpy().astype(np.int32)
        ends = [_length(row) for row in sampled]
        answers = [row[:end] for row, end in zip(sampled, ends, strict=True)]
        kept = [row[:end].numpy() for row, end in zip(logprobs, ends, strict=True)]
        rewards = [reward_of(codes, answer) for codes, answer in zip(asked.codes, answers, strict=True)]
        return Answers(answers, kept, rewards)


def samples_of(
    asked: Tickets, given: Answers, rewards: list[float], version: int, name: str, altered: float, random: Generator
) -> list[TrainSample]:
    """What a lease would hold of these answers, a share `altered` of all tokens overwritten as redaction overwrites them."""
    found = []
    for place, (prompt, answer, logprobs) in enumerate(zip(asked.prompts, given.ids, given.logprobs, strict=True)):
        hidden = _spans(random, len(prompt) + len(answer), altered)
        before, after = hidden[: len(prompt)], hidden[len(prompt) :]
        segment = Segment(
            event_id=f"{name}-{place}",
            choice=0,
            parent=None,
            trainable=True,
            prompt_ids=np.where(before, RESERVED, prompt).astype(np.int32),
            output_ids=np.where(after, RESERVED, answer).astype(np.int32),
            logprobs=logprobs,
            versions=np.full(len(answer), version, np.int32),
            prompt_altered=before.astype(np.uint8),
            output_altered=after.astype(np.uint8),
        )
        sequences = build_sequences([segment], {})
        found.append(TrainSample(f"{name}-{place}", "bench", "ticket", name, 1.0, rewards[place], [], sequences))
    return found


def _length(row: Ids) -> int:
    ends = np.flatnonzero(row == END)
    return int(ends[0]) + 1 if len(ends) else len(row)


def _spans(random: Generator, length: int, share: float) -> NDArray[np.bool_]:
    """[length] bool: spans of two tokens at random places, `share` of them all in expectation."""
    hidden = np.zeros(length, np.bool_)
    wanted = int(share * length + random.random())
    while hidden.sum() < wanted:
        start = int(random.integers(0, length))
        hidden[start : min(start + _SPAN, length, start + wanted - int(hidden.sum()))] = True
    return hidden

"""How far do overwritten prompt tokens move the log-probabilities of what was sampled after them, on SmolLM2-135M-Instruct?

``python -m bench.masking [--texts N]`` prints one JSON line last and keeps it in ``bench/results/masking.json``. The model answers
support tickets at temperature 1. The answer's tokens are then scored again with some of the prompt overwritten, as a trainer
sees them after redaction. For each answer token: Δ = log p(token | altered) - log p(token | raw), the trainer's log-ratio, and
KL(raw ‖ altered) over the vocabulary.

- ``detected``: the spans that redaction finds in the tickets, overwritten by the reserved id, or by tokens of another value.
- ``by_share``: spans of 14 tokens (an e-mail's length) anywhere in the prompt, up to a share of prompt and answer.
- ``by_distance``: one such span; answer tokens grouped by how many tokens lie between.
"""

import argparse
import json
import random
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedTokenizerFast

from dataproxy.redact import Exchange, Redactor, TokenBytes
from deploy.paths import cache_dir
from examples.triage.tickets import Ticket, tickets
from workers.inference.model import MASK_TOKEN_ID, ensure_smollm2

RESULT = Path(__file__).parent / "results" / "masking.json"
SHARES = (0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.5)
DISTANCES = (0, 8, 32, 64, 128, 256, 1024)
SPAN = 14
_ANSWER_TOKENS = 64
_SYSTEM = "You are a support agent. Answer the customer's last message in a few sentences."

Ids = NDArray[np.int64]


@dataclass(slots=True, frozen=True)
class Answered:
    """A prompt [P] and what the model sampled after it [N], with log p [N, V] of every next token in the raw context."""

    prompt: Ids
    output: Ids
    logits: torch.Tensor


@dataclass(slots=True, frozen=True)
class Shift:
    """``delta`` and ``kl`` [N] of the answer's tokens once ``altered`` of the prompt's and answer's tokens were overwritten."""

    delta: NDArray[np.float32]
    kl: NDArray[np.float32]
    altered: float


class Scorer:
    """The model, and the two things asked of it."""

    def __init__(self) -> None:
        self.directory = ensure_smollm2(cache_dir() / "models", "float32")
        self.tokenizer: PreTrainedTokenizerFast = AutoTokenizer.from_pretrained(self.directory)
        self._model = AutoModelForCausalLM.from_pretrained(self.directory, dtype=torch.float32).eval()

    def answer(self, messages: list[dict[str, str]], seed: int) -> Answered:
        """Sample an answer at temperature 1."""
        torch.manual_seed(seed)
        encoded = self.tokenizer.apply_chat_template(messages, add_generation_prompt=True, return_tensors="pt", return_dict=True)
        prompt = encoded["input_ids"]
        sampling = {"do_sample": True, "temperature": 1.0, "top_k": 0, "top_p": 1.0, "max_new_tokens": _ANSWER_TOKENS}
        with torch.no_grad():
            whole = self._model.generate(**encoded, **sampling, pad_token_id=self.tokenizer.eos_token_id)[0].numpy()
        num_prompt = prompt.shape[1]
        return Answered(whole[:num_prompt], whole[num_prompt:], self.logits(whole, num_prompt))

    def logits(self, ids: Ids, num_prompt: int) -> torch.Tensor:
        """log p [N, V] of each token after the first ``num_prompt`` of ``ids``."""
        with torch.no_grad():
            found: torch.Tensor = self._model(torch.from_numpy(ids)[None]).logits[0, num_prompt - 1 : -1]
        return torch.log_softmax(found, -1)

    def shift(self, answered: Answered, prompt: Ids) -> Shift:
        """What scoring the answer after ``prompt`` [P] instead of the raw one changes."""
        altered = self.logits(np.concatenate((prompt, answered.output)), len(prompt))
        chosen = torch.from_numpy(answered.output)[:, None]
        delta = (altered - answered.logits).gather(1, chosen)[:, 0]
        kl = (answered.logits.exp() * (answered.logits - altered)).sum(-1)
        changed = float((prompt != answered.prompt).sum()) / (len(prompt) + len(answered.output))
        return Shift(delta.numpy(), kl.numpy(), changed)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.masking", description=__doc__)
    parser.add_argument("--texts", type=int, default=48, help="tickets to answer; each takes some seconds")
    num_texts: int = parser.parse_args().texts
    scorer, rng = Scorer(), random.Random(7)
    table = TokenBytes.from_file(scorer.directory / "tokenizer.json")
    redactor = Redactor(bytes(32), MASK_TOKEN_ID, table)
    detected: dict[str, list[Shift]] = {"reserved_id": [], "other_value": []}
    shares: dict[float, list[Shift]] = {share: [] for share in SHARES}
    spans: list[tuple[Shift, int]] = []
    with_values = [ticket for ticket in tickets("train") if ticket.personal]
    for number, ticket in enumerate(with_values[:num_texts]):
        answered = scorer.answer(_messages(ticket, rng), number)
        if len(answered.output) < 2:
            continue
        masked = _redacted(redactor, scorer, answered)
        detected["reserved_id"].append(scorer.shift(answered, masked))
        detected["other_value"].append(scorer.shift(answered, _other_value(scorer, rng, answered.prompt, masked)))
        for share in SHARES:
            count = round(share * (len(answered.prompt) + len(answered.output)))
            shares[share].append(scorer.shift(answered, _overwrite(rng, answered.prompt, count)))
        for _ in range(3):
            start = rng.randrange(len(answered.prompt) - SPAN)
            prompt = answered.prompt.copy()
            prompt[start : start + SPAN] = MASK_TOKEN_ID
            spans.append((scorer.shift(answered, prompt), len(prompt) - start - SPAN))
        print(f"\rbench: {number + 1} of {num_texts} tickets", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    result = {
        "bench": "masking",
        "texts": num_texts,
        "detected": {name: _summary(shifts) for name, shifts in detected.items()},
        "by_share": {str(share): _summary(shifts) for share, shifts in shares.items()},
        "by_distance": dict(_by_distance(spans)),
    }
    RESULT.write_text(json.dumps(result) + "\n")
    print(json.dumps(result))


def _messages(ticket: Ticket, rng: random.Random) -> list[dict[str, str]]:
    """A conversation whose last message is ``ticket``, after two others without personal values."""
    others = rng.sample([other.text for other in tickets("held_out") if not other.personal], 2)
    earlier = "Thank you for writing. I have looked at it, and we take care of it today."
    turns = [message for text in others for message in (_said("user", text), _said("assistant", earlier))]
    return [_said("system", _SYSTEM), *turns, _said("user", ticket.text)]


def _said(role: str, content: str) -> dict[str, str]:
    return {"role": role, "content": content}


def _redacted(redactor: Redactor, scorer: Scorer, answered: Answered) -> Ids:
    prompt = answered.prompt.astype(np.int32)
    text = scorer.tokenizer.decode(answered.prompt)
    found = redactor.redact_exchange(Exchange({"prompt": text}, None, prompt, [], {}))
    assert found.prompt_ids is not None
    return found.prompt_ids.astype(np.int64)


def _other_value(scorer: Scorer, rng: random.Random, prompt: Ids, masked: Ids) -> Ids:
    """``prompt`` with the tokens of another ticket's value, repeated to length, where ``masked`` differs from it."""
    value = rng.choice([ticket.personal[0] for ticket in tickets("held_out") if ticket.personal])
    tokens = scorer.tokenizer.encode(value, add_special_tokens=False)
    replaced = prompt.copy()
    places = np.flatnonzero(prompt != masked)
    replaced[places] = [tokens[i % len(tokens)] for i in range(len(places))]
    return replaced


def _overwrite(rng: random.Random, prompt: Ids, count: int) -> Ids:
    """``prompt`` with ``count`` tokens overwritten, in spans of up to ``SPAN`` at random places; all of it at most."""
    replaced, left = prompt.copy(), min(count, len(prompt))
    while left:
        start = rng.randrange(len(prompt))
        places = [i for i in range(start, min(start + SPAN, len(prompt))) if replaced[i] != MASK_TOKEN_ID][:left]
        replaced[places] = MASK_TOKEN_ID
        left -= len(places)
    return replaced


def _by_distance(spans: list[tuple[Shift, int]]) -> Iterator[tuple[str, dict[str, float]]]:
    for low, high in pairwise(DISTANCES):
        parts = [_part(shift, low - after, high - after) for shift, after in spans]
        kept = [part for part in parts if len(part.delta)]
        if kept:
            yield f"{low}-{high - 1}", _summary(kept)


def _part(shift: Shift, low: int, high: int) -> Shift:
    """``shift`` of the answer's tokens [low, high) alone."""
    kept = slice(max(low, 0), max(high, 0))
    return Shift(shift.delta[kept], shift.kl[kept], shift.altered)


def _summary(shifts: list[Shift]) -> dict[str, float]:
    delta, kl = np.concatenate([s.delta for s in shifts]), np.concatenate([s.kl for s in shifts])
    low, median, high = np.quantile(np.exp(delta), (0.05, 0.5, 0.95))
    found = {
        "n_tokens": len(delta),
        "altered_share": np.mean([s.altered for s in shifts]),
        "kl_mean": kl.mean(),
        "kl_p95": np.quantile(kl, 0.95),
        "abs_delta_median": np.median(np.abs(delta)),
        "ratio_p05": low,
        "ratio_p50": median,
        "ratio_p95": high,
        "within_clip_0.2": np.mean(np.abs(np.exp(delta) - 1) <= 0.2),
        "over_2": np.mean(np.exp(delta) > 2),
    }
    return {name: round(float(value), 4) for name, value in found.items()}


if __name__ == "__main__":
    main()

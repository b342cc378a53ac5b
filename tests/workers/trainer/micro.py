"""A model that trains in milliseconds, rows and samples for it, and when weights trained in two ways are the same."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import torch

from atdp.samples import TokenSequence, TrainSample, TurnSpan
from workers.trainer.objective import Objective
from workers.trainer.rows import Row
from workers.trainer.step import Schedule

VOCABULARY = 128
PLAIN = Objective(clip_low=0.2, clip_high=0.2, behaviour_cap=5.0, behaviour_weight="truncate", kl_coef=0.0)
SCHEDULE = Schedule(learning_rate=1e-2, warmup_steps=1, max_grad_norm=1e9)


def make_micro(directory: Path, seed: int = 0) -> Path:
    """A random Llama of two layers in float32, with the files that a version needs."""
    from transformers import LlamaConfig, LlamaForCausalLM  # after `workers`, which makes it importable without CUDA

    config = LlamaConfig(
        vocab_size=VOCABULARY, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, head_dim=8, max_position_embeddings=256, tie_word_embeddings=True, initializer_range=0.2,
    )  # fmt: skip
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = LlamaForCausalLM(config)
    model.save_pretrained(directory)
    (directory / "tokenizer.json").write_text("{}")
    settings = json.loads((directory / "config.json").read_text())
    (directory / "config.json").write_text(json.dumps(settings | {"dtype": "float32"}))
    return directory


def row(
    token_ids: Sequence[int], trained: Sequence[int], advantage: float = 1.0, weight: float = 0.1, temperature: float = 1.0
) -> Row:
    """Train on the tokens at the places `trained`; every behaviour logprob is −4."""
    mask = np.zeros(len(token_ids), np.bool_)
    mask[list(trained)] = True
    end = max(trained) + 1
    behaviour = np.full(end, -4.0, np.float32)
    advantages = np.full(end, advantage, np.float32)
    return Row(np.array(token_ids[:end], np.int32), mask[:end], behaviour, mask[:end], weight, advantages, temperature)


def random_rows(seed: int, num: int = 6) -> list[Row]:
    """Rows of different lengths that share a beginning of five tokens, three trained tokens each."""
    random = np.random.default_rng(seed)
    start = random.integers(3, VOCABULARY, 5)
    rows = []
    for index in range(num):
        ids = np.concatenate([start, random.integers(3, VOCABULARY, 4 + index)]).tolist()
        rows.append(row(ids, range(len(ids) - 3, len(ids)), float(random.normal()), 1 / (3 * num)))
    return rows


def sequence(
    token_ids: Sequence[int],
    mask: Sequence[int],
    versions: int | Sequence[int] = 0,
    altered: Sequence[int] = (),
    turns: Sequence[TurnSpan] = (),
) -> TokenSequence:
    """One chain; `mask` and `altered` are places."""
    length = len(token_ids)
    loss_mask, overwritten = np.zeros(length, np.uint8), np.zeros(length, np.uint8)
    loss_mask[list(mask)], overwritten[list(altered)] = 1, 1
    sampled = np.full(length, -1, np.int32)
    sampled[list(mask)] = versions
    logprobs = np.where(loss_mask, -4.0, 0.0).astype("<f4")
    return TokenSequence(
        np.array(token_ids, "<i4").tobytes(), loss_mask.tobytes(), logprobs.tobytes(), sampled.astype("<i4").tobytes(),
        overwritten.tobytes(), list(turns),
    )  # fmt: skip


def sample(name: str, sequences: Sequence[TokenSequence], reward: float = 1.0, temperature: float = 1.0) -> TrainSample:
    """A trajectory of acme's agent."""
    return TrainSample(name, "acme", "triage", "s", temperature, reward, [], list(sequences))


def assert_same(left: Mapping[str, torch.Tensor], right: Mapping[str, torch.Tensor], start: Mapping[str, torch.Tensor]) -> None:
    """Equal but for the order of summation: by norm, to a thousandth of how far training moved each tensor from `start`."""
    norm = torch.linalg.vector_norm
    assert left.keys() == right.keys()
    for name, tensor in left.items():
        moved = norm(tensor - start.get(name, torch.zeros_like(tensor)))
        assert norm(right[name] - tensor) <= 1e-3 * moved + 1e-6, name

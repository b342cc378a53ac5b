"""Measures the trainer's step against a bare torch loop on the same batch, and what joining the calls of a session saves.

``python -m bench.trainer [--quick] [--model DIR] [--dtype bfloat16] [--part step|swaps]`` prints one JSON line last and keeps it in
``bench/results/trainer.json``. Three loops take turns, so that whatever else the machine does falls on all of them:

- ours: packing, FSDP2 on one rank, loss, statistics, clipping, AdamW: what a step runs between its lease and its version;
- bare: the plain model on the same microbatches, ready made, loss, clipping, AdamW, and nothing else;
- padded: the plain model as transformers makes it, the rows side by side, padded to the longest.

``ratio_vs_bare`` and ``ratio_vs_padded`` are medians over rounds of their CPU seconds over ours in the same round, which other
processes on the machine change little; ``ratio_vs_bare_interval`` is the 95 % interval of the first (by order statistics),
``ratio_vs_bare_wall`` the same of seconds on the clock. ``joined_token_ratio`` is the tokens
of a session of twenty turns with a row for each call, over those of its one joined row.

Then a real SGLang with a tiny model takes swaps under its clients' streams (``bench.trainer_swap`` says how and what is told of
each): ``swap_pause_ms`` is the longest gap that a stream's client sees when weights travel the default way, median over the swaps;
``swap_engine_paused_ms`` what the publisher measured of the same swaps; ``swap_pause_ms_by_way`` both for each way;
``swap_aborted`` counts streams that ended in anything but their last token, as their clients saw it. ``logprob_diff_median``
compares engine and trainer on the weights that were swapped in last, and ``logprob_diff_median_adapter`` with an adapter. Without
``--model`` the step's model is a random Llama of 1.6 million parameters, small against its batch of several microbatches as in
production.
"""

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

import numpy as np
import torch
from torch import nn

from bench import trainer_swap
from bench.trainer_batch import joined_token_ratio, make_rows
from workers.trainer import attention
from workers.trainer.loss import decoupled_ppo, token_logprobs
from workers.trainer.objective import Objective
from workers.trainer.packing import Microbatch
from workers.trainer.policy import DType, Policy, tree_logprobs
from workers.trainer.ranks import Ranks, start_ranks, stop_ranks
from workers.trainer.rows import Row
from workers.trainer.step import Schedule, make_optimizer, microbatches, train

RESULT = Path(__file__).parent / "results" / "trainer.json"
OBJECTIVE = Objective(clip_low=0.2, clip_high=0.28, behaviour_cap=5.0, behaviour_weight="truncate", kl_coef=0.0)
SCHEDULE = Schedule(learning_rate=1e-4, warmup_steps=1, max_grad_norm=1.0)
TURNS = 20
STREAMS = 8
_PADDED_EVERY = 4


@dataclass(frozen=True)
class Plan:
    """``rounds`` of two or three steps each on ``sessions`` sessions of ``turns`` turns; ``swaps`` in each way."""

    rounds: int
    sessions: int
    turns: int
    swaps: int
    max_nodes: int = 1024


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m bench.trainer", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="some minutes on two idle cores")
    parser.add_argument("--model", type=Path, help="a Hugging Face folder; without it a small random Llama")
    parser.add_argument("--dtype", choices=["float32", "bfloat16"], default="float32", help="of forward and backward")
    parser.add_argument("--part", choices=["step", "swaps"], help="measure this part alone and keep the other from the last result")
    chosen = parser.parse_args()
    plan = Plan(24, 16, 3, swaps=5) if chosen.quick else Plan(31, 16, 8, swaps=15)
    result = {"bench": "trainer"} | (json.loads(RESULT.read_text()) if chosen.part else {})
    with tempfile.TemporaryDirectory() as directory:
        ranks = start_ranks()
        if chosen.part != "swaps":
            model = chosen.model or small_model(Path(directory) / "small")
            result |= {"step_load": _load(), **measure(model, chosen.dtype, ranks, plan)}
            print(json.dumps(result), file=sys.stderr, flush=True)
        if chosen.part != "step":
            result |= {"swap_load": _load(), **trainer_swap.measure(Path(directory), plan.swaps, STREAMS, ranks)}
        stop_ranks()
    RESULT.parent.mkdir(exist_ok=True)
    RESULT.write_text(json.dumps(result) + "\n")
    print(json.dumps(result))


def _load() -> float:
    return round(os.getloadavg()[0], 1)


def measure(model: Path, dtype: DType, ranks: Ranks, plan: Plan) -> dict[str, float | str | list[float]]:
    """Seconds of the three loops, interleaved; the padded one in every fourth round."""
    vocabulary = json.loads((model / "config.json").read_text())["vocab_size"]
    rows = make_rows(plan.sessions, plan.turns, vocabulary)
    steps = {
        "ours": our_step(model, dtype, ranks, rows, plan.max_nodes),
        "bare": bare_step(model, dtype, microbatches(rows, ranks, plan.max_nodes)),
        "padded": padded_step(model, dtype, rows),
    }
    seconds: dict[str, list[float]] = {name: [] for name in steps}
    cpu: dict[str, list[float]] = {name: [] for name in steps}
    losses = {name: step() for name, step in steps.items()}  # warm, and the check that all do the same

    def measured(name: str) -> None:
        started, cpu_started = time.perf_counter(), time.process_time()
        steps[name]()
        seconds[name].append(time.perf_counter() - started)
        cpu[name].append(time.process_time() - cpu_started)

    for round_number in range(plan.rounds):
        for name in ("ours", "bare") if round_number % 2 else ("bare", "ours"):
            measured(name)
        if round_number % _PADDED_EVERY == 0:
            measured("padded")
    spread = max(losses.values()) - min(losses.values())
    assert spread <= 0.02 * max(abs(loss) for loss in losses.values()), f"the loops do not compute the same: {losses}"
    ours = seconds["ours"]
    tokens = sum(int(row.trained.sum()) for row in rows)
    return {
        "ratio_vs_bare": _ratio(cpu["bare"], cpu["ours"]),
        "ratio_vs_bare_interval": _interval(cpu["bare"], cpu["ours"]),
        "ratio_vs_bare_wall": _ratio(seconds["bare"], ours),
        "ratio_vs_padded": _ratio(cpu["padded"], cpu["ours"][::_PADDED_EVERY]),
        "joined_token_ratio": round(joined_token_ratio(TURNS), 2),
        "computed_tokens": sum(part.token_ids.shape[1] for part in microbatches(rows, ranks, plan.max_nodes)),
        "trained_tokens_per_s": round(tokens / statistics.median(ours)),
        "dtype": dtype,
        "rounds": plan.rounds,
    }


def our_step(model: Path, dtype: DType, ranks: Ranks, rows: Sequence[Row], max_nodes: int) -> Callable[[], float]:
    """What ``workers.trainer.loop`` runs under its phase ``train``."""
    policy = Policy(model, ranks, dtype)
    optimizer = make_optimizer(policy, SCHEDULE.learning_rate, 0.0)

    def step() -> float:
        batches = microbatches(rows, ranks, max_nodes)
        found, _ = train(policy, optimizer, [batches], OBJECTIVE, SCHEDULE, 0, ranks)
        return found.loss

    return step


def bare_step(model: Path, dtype: DType, batches: Sequence[Microbatch]) -> Callable[[], float]:
    """The same forward, backward and update without anything around it."""
    plain, optimizer = _plain(model, attention.NAME)

    def loss_of(batch: Microbatch) -> torch.Tensor:
        with torch.autocast("cpu", torch.bfloat16, enabled=dtype == "bfloat16"):
            logprobs, _ = tree_logprobs(plain, batch)
        args = (batch.behaviour, batch.advantages, batch.weights, OBJECTIVE)
        return decoupled_ppo(logprobs, logprobs.detach(), *args).loss

    return lambda: _update(plain, optimizer, (loss_of(batch) for batch in batches))


def padded_step(model: Path, dtype: DType, rows: Sequence[Row], rows_at_once: int = 4) -> Callable[[], float]:
    """What one writes without packing: rows side by side, as many at once as fit."""
    plain, optimizer = _plain(model, "sdpa")

    def loss_of(part: Sequence[Row]) -> torch.Tensor:
        length = max(len(row.token_ids) for row in part)
        ids = np.stack([np.pad(row.token_ids, (0, length - len(row.token_ids))) for row in part])
        seen = np.stack([np.arange(length) < len(row.token_ids) for row in part])
        with torch.autocast("cpu", torch.bfloat16, enabled=dtype == "bfloat16"):
            logits = plain(input_ids=torch.from_numpy(ids).long(), attention_mask=torch.from_numpy(seen).long()).logits
        total = torch.zeros(())
        for place, row in enumerate(part):
            at = torch.from_numpy(np.flatnonzero(row.trained))
            targets = torch.tensor(row.token_ids).long()[at]
            logprobs, _ = token_logprobs(logits[place, at - 1], torch.ones(len(at)), torch.arange(len(at)), targets)
            args = (
                torch.tensor(row.behaviour)[at],
                torch.tensor(row.advantages)[at],
                torch.full((len(at),), row.weight),
                OBJECTIVE,
            )
            total = total + decoupled_ppo(logprobs, logprobs.detach(), *args).loss
        return total

    parts = [rows[start : start + rows_at_once] for start in range(0, len(rows), rows_at_once)]
    return lambda: _update(plain, optimizer, (loss_of(part) for part in parts))


def _update(model: nn.Module, optimizer: torch.optim.Optimizer, losses: Iterator[torch.Tensor]) -> float:
    total = 0.0
    for loss in losses:
        loss.backward()  # type: ignore[no-untyped-call]
        total += loss.item()
    torch.nn.utils.clip_grad_norm_(model.parameters(), SCHEDULE.max_grad_norm)
    optimizer.step()
    optimizer.zero_grad()
    return total


def _plain(model: Path, name: str) -> tuple[nn.Module, torch.optim.Optimizer]:
    from transformers import AutoModelForCausalLM

    attention.register()
    plain: nn.Module = AutoModelForCausalLM.from_pretrained(model, dtype=torch.float32, attn_implementation=name)
    plain.train()
    return plain, torch.optim.AdamW(plain.parameters(), lr=SCHEDULE.learning_rate, betas=(0.9, 0.95), weight_decay=0.0, fused=True)


def small_model(directory: Path) -> Path:
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        vocab_size=2048,
        hidden_size=192,
        intermediate_size=512,
        num_hidden_layers=3,
        num_attention_heads=3,
        num_key_value_heads=1,
        head_dim=64,
        max_position_embeddings=4096,
        tie_word_embeddings=True,
        initializer_range=0.05,
    )  # fmt: skip
    torch.manual_seed(0)
    LlamaForCausalLM(config).save_pretrained(directory)
    return directory


def _ratio(others: Sequence[float], ours: Sequence[float]) -> float:
    return round(statistics.median(other / own for other, own in zip(others, ours, strict=True)), 3)


def _interval(others: Sequence[float], ours: Sequence[float]) -> list[float]:
    """The 95 % interval of the median ratio: the binomial's order statistics."""
    ratios = sorted(other / own for other, own in zip(others, ours, strict=True))
    reach = 0.98 * len(ratios) ** 0.5
    low, high = max(0, int(len(ratios) / 2 - reach)), min(len(ratios) - 1, int(len(ratios) / 2 + reach))
    return [round(ratios[low], 3), round(ratios[high], 3)]


if __name__ == "__main__":
    main()

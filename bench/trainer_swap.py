"""What a swap costs those who stream while it happens, for ``bench.trainer``: real SGLang, its clients, and one swap after another.

The clients are a process of their own (``bench.trainer_clients``), as agents are; this process is the publisher. The ways of
swapping take turns, so that whatever else the machine does falls on all of them; adapters are swapped on an engine of their own,
started for them, since LoRA layers cost every token something. Of each swap:

- ``gap_ms``: the longest time that any stream's client waited for its next piece, of the waits that the swap fell into;
- ``usual_gap_ms``: the same over as long a time just before, without a swap;
- ``paused_ms``: the publisher's, from asking for the pause to the answer to continue; ``total_ms`` with what is around it.
"""

import asyncio
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

import httpx
import numpy as np
import torch

from atdp import arrays
from bench.engine import MODEL_NAME, engine, process
from bench.trainer_clients import ENDED, Seen, follow
from workers.inference.client import AdapterVersion, EngineClient, SwapReport, Way, swap_adapter, swap_weights
from workers.inference.client.checksum import load_directory
from workers.inference.model import make_tiny
from workers.trainer.adapter import FOLDER, Adapter, AdapterRecord, AdapterShape, write_adapter
from workers.trainer.packing import pack, sort_rows
from workers.trainer.policy import Policy
from workers.trainer.ranks import Ranks
from workers.trainer.rows import Row

Swap = Callable[[int], SwapReport]
"""Makes the engine serve another version than before; its argument counts swaps."""

WAYS: Final[tuple[Way, ...]] = ("tensors", "disk", "distributed")
SHAPE: Final = AdapterShape(8, 16.0, ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"))
LORA: Final = ("--enable-lora", "--max-lora-rank", str(SHAPE.rank), "--lora-target-modules", *SHAPE.targets)
PIECES_BETWEEN: Final = 5
_PATIENCE_S: Final = 60.0


@dataclass(slots=True, frozen=True)
class Swapped:
    """One swap: when the publisher began and ended, and how long the engine stood still, in seconds."""

    started: float
    ended: float
    paused_s: float


def measure(directory: Path, rounds: int, streams: int, ranks: Ranks) -> dict[str, object]:
    """Swap `rounds` times in each way under `streams` streams; compare logprobs on what was swapped in last."""
    models = [make_tiny(directory / f"tiny-{seed}", seed) for seed in (0, 1)]
    adapted = Policy(models[0], ranks, "float32", adapter=SHAPE)
    added = [_adapter(directory / f"adapter-{seed}", adapted, models[0], seed) for seed in (0, 1)]
    with engine(models[0], directory) as url:
        swaps, told = under_streams(url, directory / "whole.log", _whole(url, models), rounds, streams)
        whole_diff = logprob_diff(url, Policy(models[rounds * len(WAYS) % 2], ranks, "float32"))
    with engine(models[0], directory, *LORA) as url:
        of_adapters, told_there = under_streams(url, directory / "adapters.log", _beside(url, added), rounds, streams)
        adapted.load_adapter(_tensors(adapted, (rounds - 1) % 2))
        adapter_diff = logprob_diff(url, adapted)
    by_way = {way: numbers(found, told) for way, found in swaps.items()}
    by_way |= {way: numbers(found, told_there) for way, found in of_adapters.items()}
    everything = [*told, *told_there]
    return {
        "logprob_diff_median": whole_diff,
        "logprob_diff_median_adapter": adapter_diff,
        "swap_pause_ms": by_way["tensors"]["gap_ms"],
        "swap_engine_paused_ms": by_way["tensors"]["paused_ms"],
        "swap_aborted": sum(one.kind == "broken" for one in everything),
        "swap_streams": {"at_once": streams, "ended": sum(one.kind == "length" for one in everything)},
        "swap_pause_ms_by_way": by_way,
        "pieces_per_s": {"whole": pace(told), "with_adapters": pace(told_there)},
    }


def under_streams(
    url: str, log: Path, ways: Mapping[str, Swap], rounds: int, streams: int
) -> tuple[dict[str, list[Swapped]], list[Seen]]:
    """Each way once a round, none before all streams run; gives the swaps, and what the clients saw."""
    found: dict[str, list[Swapped]] = {way: [] for way in ways}
    names = list(ways)
    with _clients(url, log, streams) as seen:
        for number in range(rounds * len(names)):
            way = names[(number + number // len(names)) % len(names)]
            _all_go_on(seen, streams)
            started = time.monotonic()
            report = ways[way](number)
            found[way].append(Swapped(started, time.monotonic(), report.paused_s))
            print(f"{way}: paused {report.paused_s:.3f} s of {report.total_s:.3f} s", file=sys.stderr, flush=True)
        _all_go_on(seen, streams)
        return found, seen()


def _whole(url: str, models: Sequence[Path]) -> dict[str, Swap]:
    """Whole weights, to the other of two models each time."""
    tensors = [load_directory(model) for model in models]

    def by(way: Way) -> Swap:
        def swap(number: int) -> SwapReport:
            held = (number + 1) % len(models)
            return swap_weights(url, models[held] if way == "disk" else tensors[held], f"v{number + 1:06d}", way=way)

        return swap

    return {way: by(way) for way in WAYS}


def _beside(url: str, added: Sequence[AdapterVersion]) -> dict[str, Swap]:
    """The other of two adapters each time."""

    async def take(number: int) -> SwapReport:
        async with EngineClient(url) as client:
            return await swap_adapter(client, added[number % len(added)], f"v{number + 1:06d}")

    return {"adapter": lambda number: asyncio.run(take(number))}


def _adapter(directory: Path, policy: Policy, base: Path, seed: int) -> AdapterVersion:
    directory.mkdir()
    write_adapter(directory, Adapter(AdapterRecord("v000000", SHAPE), _tensors(policy, seed)))
    return AdapterVersion(directory / FOLDER, "v000000", base)


def _tensors(policy: Policy, seed: int) -> dict[str, torch.Tensor]:
    """A random adapter that changes what is sampled."""
    random = torch.Generator().manual_seed(seed)
    return {name: 0.1 * torch.randn(value.shape, generator=random) for name, value in policy.gather_adapter().items()}


def numbers(swaps: Sequence[Swapped], told: Sequence[Seen]) -> dict[str, float]:
    """Medians over the swaps of one way, in ms, and the worst gap."""
    gaps = [longest_gap(told, swap.started, swap.ended) for swap in swaps]
    usual = [longest_gap([one for one in told if one.at <= swap.started], *_before(swap)) for swap in swaps]
    columns = {
        "gap_ms": gaps,
        "usual_gap_ms": usual,
        "paused_ms": [swap.paused_s for swap in swaps],
        "total_ms": [swap.ended - swap.started for swap in swaps],
    }
    found = {name: round(1e3 * statistics.median(values), 1) for name, values in columns.items()}
    return {"n": float(len(swaps)), **found, "gap_ms_max": round(1e3 * max(gaps), 1)}


def longest_gap(told: Sequence[Seen], start: float, end: float) -> float:
    """The longest wait of any stream, in seconds, of those that overlap `start` to `end`; 0 without any."""
    longest = 0.0
    last: dict[int, Seen] = {}
    for one in told:
        before = last.get(one.stream)
        last[one.stream] = one
        if before is not None and before.kind not in ENDED and before.at < end and one.at > start:
            longest = max(longest, one.at - before.at)
    return longest


def pace(told: Sequence[Seen]) -> float:
    """Pieces a second, of all streams together."""
    times = [one.at for one in told if one.kind == "piece"]
    return round((len(times) - 1) / (max(times) - min(times)), 1)


def _before(swap: Swapped) -> tuple[float, float]:
    return swap.started - (swap.ended - swap.started), swap.started


def _all_go_on(seen: Callable[[], list[Seen]], streams: int) -> None:
    """Wait until every stream has got some more pieces."""
    since, deadline = time.monotonic(), time.monotonic() + _PATIENCE_S
    while True:
        later = [one.stream for one in seen() if one.at > since and one.kind == "piece"]
        if all(later.count(stream) >= PIECES_BETWEEN for stream in range(streams)):
            return
        if time.monotonic() > deadline:
            raise SystemExit(f"the streams do not go on: {sorted(set(range(streams)) - set(later))}")
        time.sleep(0.05)


@contextmanager
def _clients(url: str, log: Path, streams: int) -> Iterator[Callable[[], list[Seen]]]:
    """Gives a function that says what the clients have seen so far."""
    log.touch()
    with process([sys.executable, "-m", "bench.trainer_clients", url, str(log), str(streams)], log.with_suffix(".err")):
        yield follow(log)


def logprob_diff(url: str, policy: Policy, questions: int = 8) -> float:
    """Median |Δ| of the engine's logprobs of what it sampled and the trainer's of the same tokens; both compute in float32."""
    batch = pack(sort_rows([_row(_recorded(url, f"question {number}")) for number in range(questions)]))
    with torch.no_grad():
        found, _ = policy.logprobs(batch)
    policy.release()
    return float((found - batch.behaviour).abs().median())


def _recorded(url: str, question: str) -> Mapping[str, Any]:
    """The engine's record of one answer, asked for as the gateway asks."""
    body = {"model": MODEL_NAME, "messages": [{"role": "user", "content": question}], "max_tokens": 64, "temperature": 1.0}
    headers = {"x-headrace-record": "1", "x-headrace-rid": f"chatcmpl-{uuid4().hex}"}
    answer = httpx.post(f"{url}/v1/chat/completions", json=body, headers=headers, timeout=_PATIENCE_S).raise_for_status()
    record: Mapping[str, Any] = answer.json()["headrace_record"]
    return record


def _row(record: Mapping[str, Any]) -> Row:
    (choice,) = record["choices"]
    prompt, sampled = arrays.decode(record["prompt_ids"], arrays.INT32), arrays.decode(choice["output_ids"], arrays.INT32)
    ids = np.concatenate([prompt, sampled])
    mask = np.arange(len(ids)) >= len(prompt)
    logprobs = np.zeros(len(ids), np.float32)
    logprobs[mask] = arrays.decode(choice["logprobs"], arrays.FLOAT32)
    return Row(ids, mask, logprobs, mask, 1.0, np.ones(len(ids), np.float32), 1.0)

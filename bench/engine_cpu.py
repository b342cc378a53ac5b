"""What answers cost a real SGLang on this CPU: ``python -m bench.engine_cpu``, about two minutes.

Bursts of 32, 8, 2 and 1 calls of 16 sampled tokens each, three times over; the CPU of the engine's scheduler and the time by the
clock, both in seconds, of the cheapest burst of each size. The prompts are cached by then, so decoding is what is measured; two
commits are compared by running it on both. Before that, without an engine: the products of one decode step in both orders and the
draw of its tokens, in milliseconds, the best of five. The last line printed is the JSON in ``bench/results/engine_cpu.json``.
"""

import argparse
import asyncio
import json
import os
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import psutil  # type: ignore[import-untyped]
import torch
from torch import Tensor

from bench.engine import engine
from deploy.paths import cache_dir
from workers.inference.cpu_profile.skinny_products import around_draw
from workers.inference.model import ensure_smollm2

RESULT = Path(__file__).with_name("results") / "engine_cpu.json"
SIZES = (32, 8, 2, 1)
NUM_TOKENS = 16
ROWS = (1, 2, 4, 8, 16, 32, 64)
_ROUNDS = 3
_PROMPT = "Ticket {number}. " + "Where is my order? It should have come last week. " * 4


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m bench.engine_cpu", description="What answers cost a real SGLang on this CPU.")
    parser.add_argument("--model", type=Path, help="a model's directory; SmolLM2-135M in float32 otherwise")
    arguments = parser.parse_args()
    products = _products()
    model = arguments.model or ensure_smollm2(cache_dir() / "models", "float32")
    with tempfile.TemporaryDirectory() as log, engine(model, Path(log)) as url:
        bursts = asyncio.run(_measure(url))
    load = round(os.getloadavg()[0], 1)
    found = {"tokens": NUM_TOKENS, "rounds": _ROUNDS, "cores": os.cpu_count(), "load": load, "bursts": bursts, **products}
    RESULT.write_text(json.dumps(found) + "\n")
    print(json.dumps(found))


def _products() -> dict[str, Any]:
    """SmolLM2-135M's: 30 layers of four fused weights each, and the head."""
    shapes = ((960, 576), (576, 576), (3072, 576), (576, 1536))
    weights = {"layers": [torch.randn(shape) for _ in range(30) for shape in shapes], "head": [torch.randn(49152, 576)]}
    orders = {"rows_first": _rows_first, "weights_first": _weights_first}
    found = dict[str, dict[str, float]]()
    with torch.inference_mode():
        for rows in ROWS:
            inputs = {size: torch.randn(rows, size) for size in (576, 1536)}
            found[str(rows)] = {
                f"{part}_{name}": _best_ms(partial(_multiply, order, inputs, of))
                for part, of in weights.items()
                for name, order in orders.items()
            }
            print(f"{rows} rows: {found[str(rows)]} ms", flush=True)
        probs = torch.softmax(torch.randn(max(SIZES), 49152), -1)
        draws = {
            "multinomial": _best_ms(partial(torch.multinomial, probs, num_samples=1)),
            "cumulated": _best_ms(partial(around_draw, _never, probs)),
        }
    print(f"{max(SIZES)} draws: {draws} ms", flush=True)
    return {"products_ms": found, "draws_ms": draws}


def _rows_first(x: Tensor, weight: Tensor) -> Tensor:
    return torch.nn.functional.linear(x, weight)


def _weights_first(x: Tensor, weight: Tensor) -> Tensor:
    return torch.mm(weight, x.t()).t().contiguous()


def _multiply(order: Callable[[Tensor, Tensor], Tensor], inputs: dict[int, Tensor], weights: list[Tensor]) -> None:
    for weight in weights:
        order(inputs[weight.shape[1]], weight)


def _best_ms(work: Callable[[], object]) -> float:
    times = []
    for _ in range(5):
        started = time.perf_counter()
        work()
        times.append(time.perf_counter() - started)
    return round(1000 * min(times), 1)


def _never(*_: Any, **__: Any) -> Any:
    raise AssertionError("the draw was left to SGLang")


async def _measure(url: str) -> dict[str, Any]:
    scheduler = _scheduler()
    found: dict[str, Any] = {}
    async with httpx.AsyncClient(base_url=url, timeout=600, trust_env=False) as client:
        await _burst(client, max(SIZES), 1)
        for size in SIZES:
            rounds = []
            for _ in range(_ROUNDS):
                cpu, clock = sum(scheduler.cpu_times()[:2]), time.monotonic()
                await _burst(client, size, NUM_TOKENS)
                rounds.append((sum(scheduler.cpu_times()[:2]) - cpu, time.monotonic() - clock))
            cpu, clock = min(rounds)
            found[str(size)] = {"cpu_s": round(cpu, 2), "wall_s": round(clock, 2)}
            print(f"{size} calls: {cpu:.2f} s of CPU, {clock:.2f} s", flush=True)
    return found


async def _burst(client: httpx.AsyncClient, size: int, num_tokens: int) -> None:
    sampling = {"max_new_tokens": num_tokens, "ignore_eos": True, "temperature": 1.0}
    bodies = [{"text": _PROMPT.format(number=number), "sampling_params": sampling} for number in range(size)]
    for answer in await asyncio.gather(*(client.post("/generate", json=body) for body in bodies)):
        answer.raise_for_status()


def _scheduler() -> psutil.Process:
    """SGLang names its scheduler's process."""
    children = psutil.Process().children(recursive=True)
    return next(child for child in children if "scheduler" in " ".join(child.cmdline()))


if __name__ == "__main__":
    main()

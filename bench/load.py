"""What training costs serving on shared cores, with and without compute that follows load.

``python -m bench.load [--quick]`` starts a real SGLang engine with the tiny model and sends bursts of requests with pauses between
them, while a trainer in a process of its own takes the product's step over and over on a batch of sessions. Arms take turns for
several rounds: ``alone`` (nothing trains), ``unbounded`` (the trainer never waits, niceness 0), ``nice`` (it never waits, niceness
10) and ``follows`` (the defaults: niceness 10, and the gate). Latency is of whole answers, in ms; training counts tokens through
the model a second. One JSON line last, kept in ``bench/results/load.json``.
"""

import argparse
import asyncio
import json
import os
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import httpx

from bench.engine import MODEL_NAME, engine, process
from workers.trainer.niceness import OWN_SESSION, be_nice

RESULT = Path(__file__).parent / "results" / "load.json"
ARMS: Final = ("alone", "unbounded", "nice", "follows")
COMPUTE: Final = {
    "unbounded": {"follow_load": False, "nice": 0},
    "nice": {"follow_load": False, "nice": 10},
    "follows": {"nice": 10},
}


@dataclass(slots=True, frozen=True)
class Plan:
    """Each arm, `rounds` times: `bursts` of `requests` at once, `tokens` each, `pause_s` between two bursts."""

    rounds: int
    bursts: int
    requests: int = 4
    tokens: int = 48
    pause_s: float = 3.0


def main() -> None:
    """Measure and print; as ``--train`` it is the trainer's process."""
    parser = argparse.ArgumentParser(prog="python -m bench.load", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="two rounds instead of three")
    parser.add_argument("--train", nargs=3, metavar=("MODEL", "URL", "COMPUTE"), help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.train:
        _train(*chosen.train)
        return
    plan = Plan(2 if chosen.quick else 3, 3)
    with tempfile.TemporaryDirectory() as directory:
        found = measure(Path(directory), plan)
    result = {"bench": "load", "load_at_the_end": round(os.getloadavg()[0], 1), "plan": plan_of(plan), **found}
    RESULT.write_text(json.dumps(result) + "\n")
    print(json.dumps(result))


def plan_of(plan: Plan) -> dict[str, float]:
    """For the record."""
    return {name: getattr(plan, name) for name in plan.__slots__}


def measure(directory: Path, plan: Plan) -> dict[str, Any]:
    """Latencies and training speed by arm."""
    from bench.trainer import small_model
    from workers.inference.model import make_tiny

    served, trained = make_tiny(directory / "tiny", seed=0), small_model(directory / "small")
    latencies: dict[str, list[float]] = {arm: [] for arm in ARMS}
    speeds: dict[str, list[float]] = {arm: [] for arm in ARMS}
    with engine(served, directory) as url:
        asyncio.run(_bursts(url, Plan(1, 1)))  # warm
        for round_number in range(plan.rounds):
            for arm in ARMS[round_number:] + ARMS[:round_number]:
                with _trainer(arm, trained, url, directory) as told:
                    started = told()
                    latencies[arm] += asyncio.run(_bursts(url, plan))
                    ended = told()
                if started and ended:
                    speeds[arm].append((ended[0] - started[0]) / (ended[1] - started[1]))
                print(f"round {round_number + 1}, {arm}: {statistics.median(latencies[arm]):.0f} ms", file=sys.stderr, flush=True)
    return {arm: _summary(latencies[arm], speeds[arm]) for arm in ARMS}


def _summary(latencies: list[float], speeds: list[float]) -> dict[str, float]:
    cuts = statistics.quantiles(latencies, n=20)
    found = {"n": float(len(latencies)), "p50_ms": cuts[9], "p95_ms": cuts[18], "trained_tokens_per_s": 0.0}
    if speeds:
        found["trained_tokens_per_s"] = statistics.median(speeds)
    return {name: round(value, 1) for name, value in found.items()}


async def _bursts(url: str, plan: Plan) -> list[float]:
    """Milliseconds of each answer."""
    found = []
    async with httpx.AsyncClient(base_url=url, timeout=120.0, trust_env=False) as client:

        async def ask(number: int) -> float:
            messages = [{"role": "user", "content": f"burst {number}"}]
            body = {"model": MODEL_NAME, "messages": messages, "max_tokens": plan.tokens, "ignore_eos": True}
            started = time.perf_counter()
            (await client.post("/v1/chat/completions", json=body)).raise_for_status()
            return (time.perf_counter() - started) * 1e3

        for burst in range(plan.bursts):
            found += await asyncio.gather(*(ask(100 * burst + number) for number in range(plan.requests)))
            await asyncio.sleep(plan.pause_s)
    return found


@contextmanager
def _trainer(arm: str, model: Path, url: str, directory: Path) -> Iterator[Any]:
    """Gives a function that tells the newest (tokens trained, at) of a running trainer, None where none runs."""
    if arm not in COMPUTE:
        yield lambda: None
        return
    log = directory / f"{arm}.log"
    command = [sys.executable, "-m", "bench.load", "--train", str(model), url, json.dumps(COMPUTE[arm])]
    with process(command, log) as trainer:

        def told() -> tuple[float, float]:
            while not (lines := [line for line in log.read_text().splitlines() if line.startswith("trained ")]):
                if trainer.poll() is not None:
                    raise SystemExit(log.read_text()[-3000:])
                time.sleep(0.1)
            _, tokens, at = lines[-1].split()
            return float(tokens), float(at)

        yield told


def _train(model: str, url: str, compute: str) -> None:
    """Steps without end; a line after each microbatch: tokens so far, and when."""
    os.setsid()  # as the launcher does it
    os.environ[OWN_SESSION] = "1"
    settings = json.loads(compute)
    be_nice(settings["nice"])
    from bench.trainer import OBJECTIVE, SCHEDULE
    from bench.trainer_batch import make_rows
    from workers.trainer.compute import Compute
    from workers.trainer.gate import Gate
    from workers.trainer.policy import Policy
    from workers.trainer.ranks import start_ranks
    from workers.trainer.step import make_optimizer, microbatches, train

    ranks = start_ranks()
    policy = Policy(Path(model), ranks, "float32")
    optimizer = make_optimizer(policy, SCHEDULE.learning_rate, 0.0)
    batches = microbatches(make_rows(16, 3, 2048), ranks, 256)
    sizes, count, total = [batch.token_ids.shape[1] for batch in batches], 0, 0
    with Gate(Compute(**settings), [url], Path(model) / "run" / f"{os.getpid()}.json", lambda: 1.0, threading.Event()) as gate:

        def before() -> None:
            nonlocal count, total
            total += sizes[(count - 1) % len(sizes)] if count else 0
            count += 1
            print(f"trained {total} {time.time()}", flush=True)
            gate.pass_()

        policy.call_between_layers(gate.give_way)
        while True:
            train(policy, optimizer, [batches], OBJECTIVE, SCHEDULE, 0, ranks, None, before)


if __name__ == "__main__":
    main()

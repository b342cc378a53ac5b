"""What governance costs: latency and CPU at the gateway, events a second in the drain, and what may still be learned from.

``python -m bench.governance [--quick]`` prints tables, ends with one JSON line and keeps it in ``bench/results/governance.json``.
Arms take turns in every round, so that a disturbance meets them all; a figure is the median over rounds, and all rounds are kept.

- ``latency``: the mock engine asked directly, through the gateway without recording, and with it (sealed and synced before an
  answer ends). p50 and p99 at the client of the first byte, of the whole call and, in a stream, of the gap between two events
  (the engine's own is 5 ms); the gateway's CPU µs for each call and event; calls a second of one core.
- ``pseudonyms``: ms of a turn in the data proxy, where models see surrogates: the one part of redaction on the hot path.
- ``throughput``: events a second of CPU that the drain stores in SQLite with full sync: decrypted and stored alone, with the
  pattern lane, with the lane for names too, with the ledger, and with combinations; ``seal_us`` is a gateway's CPU for capture.
- ``learning``: which share of the same calls may train under each policy; cited, not run: what overwritten tokens did to learning.
"""

import argparse
import json
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

from rich.console import Console
from rich.table import Table

from bench import pseudonyms
from bench.drain import NoRedactors, drained, real_redactors, seal_cost_us
from bench.drain_traffic import MASK_ID, TOKENS, talk
from bench.gateway import plan as plans
from bench.gateway.cases import GAP_US, Case
from bench.gateway.contestants import Running, Site, start_engine, start_ours
from bench.gateway.measure import Sample
from bench.gateway.plan import Plan, Results
from bench.governance_traffic import TERMS, Vocabulary, trained_share
from dataproxy.__main__ import spare_the_collector
from dataproxy.drain.redaction import Redactors
from dataproxy.redact import TokenBytes
from dataproxy.redact.policy import RedactionPolicy
from dataproxy.services import TenantRedactors
from deploy.paths import cache_dir

RESULT = Path(__file__).parent / "results" / "governance.json"
CASES = {"call, alone": Case(connections=1), "call, 16 at once": Case(), "stream, 16 at once": Case(gap_us=GAP_US)}
GATEWAYS = {"direct": "no gateway", "ours-off": "gateway, nothing recorded", "ours-on": "gateway, captured and sealed"}
_NAMES = RedactionPolicy(names=("PERSON", "PLACE", "ORG"))


def _with_names() -> Redactors:
    return TenantRedactors(bytes(32), MASK_ID, TOKENS, lambda _: (1, _NAMES))


@dataclass(slots=True, frozen=True)
class Arm:
    """What the drain does to an event beside storing it. A slower arm gets ``fewer`` times less traffic."""

    redactors: Callable[[], Redactors]
    ledger: bool
    fewer: int = 1


ARMS = {
    "stored, nothing else": Arm(NoRedactors, False),
    "+ pattern lane": Arm(real_redactors, False),
    "+ pattern lane and lane for names": Arm(_with_names, False, fewer=5),
    "+ ledger": Arm(NoRedactors, True),
    "+ pattern lane and ledger (default)": Arm(real_redactors, True),
    "everything": Arm(_with_names, True, fewer=5),
}


def main() -> None:
    """Measure, show, keep, print."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.governance", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="three short rounds, under four minutes; else five longer ones")
    parser.add_argument("--no-keep", action="store_true", help="do not write bench/results/governance.json")
    asked = parser.parse_args()
    rounds, seconds, talks, count = (3, 1.5, 100, 200) if asked.quick else (5, 4.0, 400, 400)
    before, begun = os.getloadavg()[0], time.monotonic()
    latency = measure_latency(rounds, seconds)
    spare_the_collector()
    throughput = {"seal_us": round(seal_cost_us(20 * talks), 1), "arms": measure_drain(rounds, talks)}
    learning = {"policies": {name: trained_share(terms, smollm2(), count) for name, terms in TERMS.items()}, "cited": cited()}
    result = {
        "bench": "governance",
        "cores": os.cpu_count(),
        "load_average": [round(before, 1), round(os.getloadavg()[0], 1)],
        "seconds": round(time.monotonic() - begun),
        "rounds": rounds,
        "latency": latency,
        "pseudonyms": pseudonyms.measured(),
        "throughput": throughput,
        "learning": learning,
    }
    show(result, Console(stderr=True, width=160))
    if not asked.no_keep:
        RESULT.write_text(json.dumps(result, indent=1) + "\n")
    print(json.dumps(result))


def measure_latency(rounds: int, seconds: float) -> dict[str, dict[str, dict[str, Any]]]:
    """Case → gateway → medians over ``rounds`` of ``seconds`` each."""
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="hr-")))
        engine = start_engine(stack, directory)
        assert engine.stdout is not None
        site = Site(stack, directory, int(engine.stdout.readline()), engine.pid, 0)
        gateways = [Running("direct", site.engine_port, site.engine_pid, "mock engine"), *start_ours(site)]
        cells = tuple((case, tuple(GATEWAYS)) for case in CASES.values())
        plan = Plan(cells, rounds, seconds, 0.3, growth_requests=0, growth_s=0.0, deadline_s=3600.0, install_timeout_s=0.0)
        results = plans.run(plan, gateways, directory, time.monotonic(), lambda _: None)
    if results.refused:
        raise RuntimeError(f"a gateway refused: {results.refused[0]}")
    return {name: {gateway: _in_medians(case, results, gateway) for gateway in GATEWAYS} for name, case in CASES.items()}


def _in_medians(case: Case, results: Results, gateway: str) -> dict[str, Any]:
    samples = results.samples[case.name, gateway]

    def median(of: Callable[[Sample], float], digits: int = 3) -> float:
        return round(statistics.median(map(of, samples)), digits)

    found: dict[str, Any] = {
        "first_ms": [median(lambda s: s.load.first_p50_us / 1e3), median(lambda s: s.load.first_p99_us / 1e3)],
        "call_ms": [median(lambda s: s.load.p50_us / 1e3), median(lambda s: s.load.p99_us / 1e3)],
        "cpu_us": median(lambda s: s.cpu_us, 1),
        "calls_s": median(lambda s: s.requests_s, 0),
        "n": sum(sample.load.requests for sample in samples),
        "rounds_cpu_us": [round(sample.cpu_us, 1) for sample in samples],
    }
    if case.stream:
        found["gap_ms"] = [median(lambda s: s.load.gap_p50_us / 1e3), median(lambda s: s.load.gap_p99_us / 1e3)]
        found["event_us"] = median(lambda s: s.event_us, 1)
    return found


def measure_drain(rounds: int, talks: int) -> dict[str, dict[str, Any]]:
    """Arm → events a second of CPU, median over rounds of ``talks`` conversations of three calls."""
    speeds: dict[str, list[float]] = {name: [] for name in ARMS}
    counts = dict.fromkeys(ARMS, 0)
    for _ in range(rounds):
        for name, arm in ARMS.items():
            with nullcontext() if arm.ledger else without_ledger():
                one = drained(talk, max(1, talks // arm.fewer), arm.redactors())
            speeds[name].append(one["events_s_core"])
            counts[name] += int(one["n"])
    return {
        name: {"events_s_core": round(statistics.median(found)), "n": counts[name], "rounds": found}
        for name, found in speeds.items()
    }


@contextmanager
def without_ledger() -> Iterator[None]:
    """Events are stored, and nothing is proven of them: no leaf, no salt, no head."""
    with ExitStack() as patches:
        for name in ("lock_logs", "event_content", "append"):
            patches.enter_context(patch(f"dataproxy.store.events.{name}", _nothing))
        yield


def _nothing(*_: object) -> bytes:
    return b""


def smollm2() -> Vocabulary:
    """SmolLM2's tokenizer, as the demo's engine has it."""
    from transformers import AutoTokenizer  # brings torch along, which the tests do without

    from workers.inference.model import MASK_TOKEN_ID, ensure_smollm2

    directory = ensure_smollm2(cache_dir() / "models", "float32")
    tokenizer = AutoTokenizer.from_pretrained(directory)
    encode = partial(tokenizer.encode, add_special_tokens=False)
    return Vocabulary(encode, TokenBytes.from_file(directory / "tokenizer.json"), MASK_TOKEN_ID)


def cited() -> dict[str, Any]:
    """What ``bench.learning`` and ``bench.masking`` found, from the results that they kept (docs/experiments.md)."""
    learned = json.loads(RESULT.with_name("learning.json").read_text())["summary"]
    shifted = json.loads(RESULT.with_name("masking.json").read_text())
    arms = {name: learned[name] for name in ("online", "altered 5 %", "altered 20 %")}
    success = {name: [arm["end"], arm["end_half"], arm["area"], arm["area_half"]] for name, arm in arms.items()}
    return {
        "python -m bench.learning --seeds 5": success,
        "python -m bench.masking --texts 16": {share: one["kl_mean"] for share, one in shifted["by_share"].items()},
    }


def show(result: dict[str, Any], console: Console) -> None:
    """The three tables."""
    console.print(
        _table(
            ("case", "gateway", "first ms p50/p99", "call ms p50/p99", "gap ms p50/p99", "CPU µs", "calls/s", "n"),
            _latency_rows(result),
        )
    )
    drain = result["throughput"]["arms"]
    console.print(
        _table(("the drain", "events/s of CPU", "n"), [(name, arm["events_s_core"], arm["n"]) for name, arm in drain.items()])
    )
    policies = result["learning"]["policies"].items()
    shares = ("trainable", "trainable_with_value", "trained_tokens", "altered_tokens")
    console.print(
        _table(("policy", *shares, "calls"), [(name, *(one[share] for share in shares), one["calls"]) for name, one in policies])
    )


def _latency_rows(result: dict[str, Any]) -> Iterator[Sequence[object]]:
    for case, gateways in result["latency"].items():
        for name, one in gateways.items():
            pairs = (f"{one[key][0]}/{one[key][1]}" if key in one else "" for key in ("first_ms", "call_ms", "gap_ms"))
            yield case, GATEWAYS[name], *pairs, one["cpu_us"], one["calls_s"], one["n"]


def _table(heads: Sequence[str], rows: Iterable[Sequence[object]]) -> Table:
    table = Table(*heads, box=None)
    for row in rows:
        table.add_row(*map(str, row))
    return table


if __name__ == "__main__":
    main()

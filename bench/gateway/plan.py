"""Which cases on which gateways, how often and how long: the quick run and the whole one.

Rounds are interleaved: in each round the gateways meet a case one right after the other, so that a disturbance hits all alike.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from bench.gateway.cases import GAP_US, Case
from bench.gateway.contestants import Running
from bench.gateway.measure import RefusedError, Sample, measure

SMALL, LARGE = Case(), Case(prompt="32k")
STREAM, STREAM_ALONE = Case(gap_us=GAP_US), Case(gap_us=GAP_US, connections=1)
MANY_STREAMS = Case(gap_us=20_000, connections=512)
MEMORY_S = 3_600.0
"""The longest that a memory check may take."""
_FAST = ("direct", "nginx", "python-floor", "ours-off", "ours-on", "sglang-router")
_ALL = (*_FAST, "litellm", "fastapi-httpx")


@dataclass(slots=True, frozen=True)
class Plan:
    """``cells`` are (case, gateway names). No round begins that would not end ``deadline_s`` after the start, the memory
    check included, going by the rounds before it. The memory check ends
    after ``growth_requests`` or ``growth_s``."""

    cells: tuple[tuple[Case, tuple[str, ...]], ...]
    rounds: int
    seconds: float
    warmup_s: float
    growth_requests: int
    growth_s: float
    deadline_s: float
    install_timeout_s: float


def quick(seconds: float | None) -> Plan:
    """Under four minutes, an environment that has to be made included."""
    cells = ((SMALL, _ALL), (LARGE, _FAST), (STREAM, _FAST))
    return Plan(cells, 3, seconds or 1.5, 0.3, 100_000, 15.0, 225.0, 110.0)


def whole(seconds: float | None) -> Plan:
    """Every number of connections, streamed and not, small and large prompts; then many streams at once."""
    cells = [
        (Case(prompt, connections, gap_us), _ALL)
        for gap_us in (0, GAP_US)
        for prompt in ("1k", "32k")
        for connections in (1, 16, 64)
    ]
    return Plan((*cells, (MANY_STREAMS, _FAST)), 3, seconds or 2.0, 0.5, 1_000_000, MEMORY_S, 7_200.0, 900.0)


@dataclass(slots=True)
class Results:
    """Samples by (case name, gateway name), one a round; ``refused`` says why a round has none."""

    samples: dict[tuple[str, str], list[Sample]] = field(default_factory=dict)
    refused: list[str] = field(default_factory=list)

    def best(self, case: Case, name: str) -> Sample | None:
        """The round with the least CPU a request, or None where there is none."""
        rounds = self.samples.get((case.name, name))
        return min(rounds, key=lambda sample: sample.cpu_us) if rounds else None


def run(plan: Plan, gateways: list[Running], directory: Path, begun: float, tick: Callable[[str], None]) -> Results:
    """The rounds of ``plan``, which counts its time from ``begun``; ``tick`` is told before each measurement."""
    results = Results()
    end, first = begun + plan.deadline_s - 1.25 * plan.growth_s, time.monotonic()
    for number in range(plan.rounds):
        so_far = time.monotonic() - first
        if number and time.monotonic() + so_far / number > end:
            break
        for case, names in plan.cells:
            for gateway in (gateway for gateway in gateways if gateway.name in names):
                tick(f"round {number + 1}: {case.name} {gateway.name}")
                try:
                    sample = measure(gateway, case, directory, seconds=plan.seconds, warmup_s=plan.warmup_s)
                except RefusedError as error:
                    results.refused.append(str(error))
                    continue
                results.samples.setdefault((case.name, gateway.name), []).append(sample)
    return results


def num_measurements(plan: Plan, gateways: list[Running]) -> int:
    """How many measurements ``run`` makes if time suffices."""
    present = {gateway.name for gateway in gateways}
    return plan.rounds * sum(len(present.intersection(names)) for _, names in plan.cells)

"""Turns results into the JSON that is kept and the table that is shown."""

import os
import platform
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from bench.gateway.contestants import Running
from bench.gateway.growth import Growth
from bench.gateway.plan import LARGE, SMALL, STREAM, Plan, Results
from bench.gateway.programs import is_compiled

QUICK_KEYS = (
    "nginx_us",
    "ours_off_us",
    "ours_on_us",
    "ours_sse_event_us",
    "ours_32k_on_us",
    "sglang_router_us",
    "litellm_us",
    "rss_mb",
)


def headline(results: Results, growth: Growth | None) -> dict[str, float | None]:
    """The figures of one line; None for what did not run. CPU µs of the gateway a request, or an event, at 16 connections."""

    def us(name: str, case: Any = SMALL) -> float | None:
        sample = results.best(case, name)
        return None if sample is None else round(sample.event_us if case.stream else sample.cpu_us, 1)

    line = {
        "nginx_us": us("nginx"),
        "ours_off_us": us("ours-off"),
        "ours_on_us": us("ours-on"),
        "ours_sse_event_us": us("ours-on", STREAM),
        "ours_32k_on_us": us("ours-on", LARGE),
        "sglang_router_us": us("sglang-router"),
        "litellm_us": us("litellm"),
        "rss_mb": None if growth is None else growth.after_mb,
    }
    more = {
        "fastapi_httpx_us": us("fastapi-httpx"),
        "python_floor_us": us("python-floor"),
        "nginx_32k_us": us("nginx", LARGE),
        "ours_32k_off_us": us("ours-off", LARGE),
        "sglang_router_32k_us": us("sglang-router", LARGE),
        "nginx_sse_event_us": us("nginx", STREAM),
        "ours_off_sse_event_us": us("ours-off", STREAM),
        "sglang_router_sse_event_us": us("sglang-router", STREAM),
        "ours_first_chunk_ms": first_chunk_ms(results, "ours-on", STREAM),
        "nginx_first_chunk_ms": first_chunk_ms(results, "nginx", STREAM),
        "rss_growth_mb": None if growth is None else round(growth.after_mb - growth.before_mb, 1),
        "rss_growth_requests": None if growth is None else growth.requests,
    }
    return line | more


def first_chunk_ms(results: Results, name: str, case: Any) -> float | None:
    """How much later than directly the first byte of a streamed body comes: difference of the medians, each of the best round."""
    ours, direct = results.samples.get((case.name, name)), results.samples.get((case.name, "direct"))
    if not ours or not direct:
        return None
    best = [min(sample.load.first_p50_us for sample in rounds) for rounds in (ours, direct)]
    return round((best[0] - best[1]) / 1e3, 3)


def cells(results: Results) -> list[dict[str, Any]]:
    """One row for each case and gateway: best round for CPU, best for each time, and every round's CPU."""
    rows = []
    for (case, name), rounds in results.samples.items():
        best = min(rounds, key=lambda sample: sample.cpu_us)
        rows.append(
            {
                "case": case,
                "gateway": name,
                "cpu_us": round(best.cpu_us, 1),
                "event_us": round(best.event_us, 1) or None,
                "requests_s": round(max(sample.requests_s for sample in rounds)),
                "p50_ms": round(min(sample.load.p50_us for sample in rounds) / 1e3, 3),
                "p99_ms": round(min(sample.load.p99_us for sample in rounds) / 1e3, 3),
                "first_p50_ms": round(min(sample.load.first_p50_us for sample in rounds) / 1e3, 3),
                "n": sum(sample.load.requests for sample in rounds),
                "rounds_cpu_us": [round(sample.cpu_us, 1) for sample in rounds],
            }
        )
    return rows


def setting(plan: Plan, results: Results, gateways: list[Running], missing: dict[str, str]) -> dict[str, Any]:
    """On what it ran and how."""
    model = [line.partition(":")[2].strip() for line in Path("/proc/cpuinfo").read_text().splitlines() if "model name" in line]
    return {
        "rounds": max((len(rounds) for rounds in results.samples.values()), default=0),
        "seconds": plan.seconds,
        "compiled": is_compiled(),
        "cores": len(os.sched_getaffinity(0)),
        "cpu": model[0] if model else platform.machine(),
        "kernel": platform.release(),
        "load_average": round(os.getloadavg()[0], 1),
        "versions": {gateway.name: gateway.version for gateway in gateways},
        "missing": missing,
    }


def show(results: Results, console: Console) -> None:
    """The table of all cells."""
    table = Table("case", "gateway", "CPU µs", "µs/event", "requests/s", "p50 ms", "p99 ms", "first ms", "n", box=None)
    for row in cells(results):
        numbers = ("cpu_us", "event_us", "requests_s", "p50_ms", "p99_ms", "first_p50_ms", "n")
        table.add_row(row["case"], row["gateway"], *("" if row[name] is None else str(row[name]) for name in numbers))
    console.print(table)

"""Requests a second by number of gateway processes, free on all cores beside engine and load generator."""

import os
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

from bench.gateway.cases import Case
from bench.gateway.contestants import Site, start_ours
from bench.gateway.measure import measure

_BUSY = Case(connections=64)


def scale(site: Site, seconds: float, rounds: int) -> list[dict[str, Any]]:
    """One row for 1 and for as many processes as there are cores, recording off and on: best round."""
    cpus = os.sched_getaffinity(0)
    with ExitStack() as stack:
        here = replace(site, stack=stack)
        gateways = [gateway for count in sorted({1, len(cpus)}) for gateway in start_ours(here, count, cpus)]
        samples: dict[str, list[float]] = {gateway.name: [] for gateway in gateways}
        for _ in range(rounds):
            for gateway in gateways:
                sample = measure(gateway, _BUSY, site.directory, seconds=seconds, warmup_s=seconds / 4)
                samples[gateway.name].append(sample.requests_s)
    return [{"gateway": name, "case": _BUSY.name, "requests_s": round(max(rates))} for name, rates in samples.items()]

"""``python -m bench.gateway``: start everybody, measure in rounds, keep and print the result.

The last line of standard output is one JSON object with at least ``report.QUICK_KEYS``. ``--quick`` keeps it in
``bench/results/gateway.json``, the whole run in ``gateway_whole.json`` with a row for each case, ``--memory`` in
``gateway_memory.json``.
"""

import argparse
import json
import os
import shutil
import tempfile
import time
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from bench.gateway import plan as plans
from bench.gateway.contestants import STARTS, Running, Site, start_all, start_engine, start_ours
from bench.gateway.growth import Growth, grow
from bench.gateway.measure import RefusedError
from bench.gateway.plan import Plan, Results
from bench.gateway.report import cells, headline, setting, show
from bench.gateway.scaling import scale

_RESULTS = Path(__file__).parents[1] / "results"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.gateway", description="Measure gateways side by side.")
    parser.add_argument("--quick", action="store_true", help="the few figures that matter, under four minutes")
    parser.add_argument("--memory", type=int, metavar="REQUESTS", help="only what our gateway's memory does over so many requests")
    parser.add_argument("--seconds", type=float, help="of each measurement")
    parser.add_argument("--only", default=",".join(STARTS), help="names of the gateways to start")
    parser.add_argument("--chart", type=Path, help="write a chart (PNG) of CPU µs a request")
    parser.add_argument("--no-keep", action="store_true", help="do not write bench/results")
    options, begun = parser.parse_args(), time.monotonic()
    plan = plans.quick(options.seconds) if options.quick else plans.whole(options.seconds)
    console = Console(stderr=True)
    if options.memory:
        print(json.dumps(_memory(plan, options.memory, keep=not options.no_keep)))
        return
    with ExitStack() as stack:
        directory = Path(tempfile.mkdtemp(prefix="hr-"))
        stack.callback(shutil.rmtree, directory)
        site = _start_engine(stack, directory, plan)
        gateways, missing = start_all(site, options.only.split(","))
        gateways.insert(0, Running("direct", site.engine_port, site.engine_pid, "mock engine"))
        results = _run(plan, gateways, directory, begun, console)
        growth = _grow(plan, gateways, directory, results)
        scaling = scale(site, plan.seconds, plan.rounds) if not options.quick else []
    show(results, console)
    for why in results.refused:
        console.print(f"[red]refused:[/red] {why}", soft_wrap=True, highlight=False)
    line = {
        "bench": "gateway",
        **headline(results, growth),
        **setting(plan, results, gateways, missing),
        "refused": results.refused,
    }
    if not options.no_keep:
        name = "gateway.json" if options.quick else "gateway_whole.json"
        kept = line if options.quick else {**line, "scaling": scaling, "cells": cells(results)}
        (_RESULTS / name).write_text(json.dumps(kept, indent=None if options.quick else 1) + "\n")
    if options.chart:
        from bench.gateway.chart import draw

        draw(results, options.chart)
    print(json.dumps(line))


def _memory(plan: Plan, num_requests: int, *, keep: bool) -> dict[str, object]:
    with ExitStack() as stack:
        directory = Path(tempfile.mkdtemp(prefix="hr-"))
        stack.callback(shutil.rmtree, directory)
        gateway = start_ours(_start_engine(stack, directory, plan))[1]
        begun = time.monotonic()
        growth = grow(gateway, num_requests, plans.MEMORY_S, directory)
    line = {
        "bench": "gateway memory",
        **asdict(growth),
        "seconds": round(time.monotonic() - begun),
        "load_average": os.getloadavg()[0],
    }
    if keep:
        (_RESULTS / "gateway_memory.json").write_text(json.dumps(line) + "\n")
    return line


def _start_engine(stack: ExitStack, directory: Path, plan: Plan) -> Site:
    engine = start_engine(stack, directory)
    assert engine.stdout is not None
    return Site(stack, directory, int(engine.stdout.readline()), engine.pid, plan.install_timeout_s)


def _run(plan: Plan, gateways: list[Running], directory: Path, begun: float, console: Console) -> Results:
    columns = (BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TextColumn("{task.description}"))
    with Progress(*columns, console=console, transient=True) as progress:
        bar = progress.add_task("", total=plans.num_measurements(plan, gateways))

        def tick(what: str) -> None:
            progress.update(bar, advance=1, description=what)

        return plans.run(plan, gateways, directory, begun, tick)


def _grow(plan: Plan, gateways: list[Running], directory: Path, results: Results) -> Growth | None:
    try:
        recording = [gateway for gateway in gateways if gateway.journal is not None]
        return grow(recording[0], plan.growth_requests, plan.growth_s, directory) if recording else None
    except RefusedError as error:
        results.refused.append(str(error))
        return None


if __name__ == "__main__":
    main()

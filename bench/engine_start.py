"""What a start of the engine costs: ``python -m bench.engine_start``, about three minutes for five starts on two cores.

The engine of ``headrace up --model tiny`` is started by the launcher's own child, guard and environment, again and again; each time
the seconds until it is ready, and by then the CPU seconds and the memory of all its processes (proportional set size: pages that
they share count once). Medians, and every start beside them; the last line printed is one JSON line, kept in
``bench/results/engine_start.json``. The first start may read SGLang from the disk. The load average says how quiet the machine was.
"""

import argparse
import asyncio
import json
import os
import statistics
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import psutil  # type: ignore[import-untyped]

from deploy.launcher.checks import free_port
from deploy.launcher.child import Child, ChildSpec
from deploy.launcher.model import ensure_model
from deploy.launcher.options import TINY, UpOptions
from deploy.launcher.stack import ENGINE, Endpoints, Served, child_specs
from deploy.paths import Paths

RESULT = Path(__file__).with_name("results") / "engine_start.json"


@dataclass(slots=True, frozen=True)
class Start:
    """One start: seconds until ready, CPU seconds of all processes until then, their memory at that moment."""

    ready_s: float
    cpu_s: float
    pss_mb: float


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m bench.engine_start", description="What a start of the engine costs.")
    parser.add_argument("--starts", type=int, default=5, help="how often")
    parser.add_argument("--model", default=TINY, help="as of headrace up: tiny, smollm2, or a model's directory")
    asked = parser.parse_args()
    before = os.getloadavg()[0]
    starts = asyncio.run(measure(asked.model, asked.starts))
    load = [round(before, 1), round(os.getloadavg()[0], 1)]
    found = {"bench": "engine_start", "model": asked.model, "cores": os.cpu_count(), "load": load, **summary(starts)}
    RESULT.write_text(json.dumps(found) + "\n")
    print(json.dumps(found))


async def measure(model: str, times: int) -> list[Start]:
    """Start the engine of ``model`` ``times`` times, one after another."""
    found = []
    for number in range(times):
        with tempfile.TemporaryDirectory() as directory:
            found.append(await started(await _engine(model, Path(directory)), Path(directory)))
        print(f"start {number + 1}: {asdict(found[-1])}", flush=True)
    return found


async def started(spec: ChildSpec, directory: Path) -> Start:
    """Start a process as the launcher does, look at it once it is ready, and end it. Its log and pid lie in ``directory``.

    Raises:
        ExceptionGroup: of StartFailed, with its last words.
    """
    child = Child(spec, directory / f"{spec.name}.log", directory / f"{spec.name}.pid", print)
    begun = time.monotonic()
    async with asyncio.TaskGroup() as group:
        group.create_task(child.run())
        await child.is_ready.wait()
        ready_s = time.monotonic() - begun
        cpu_s, pss_mb = costs(psutil.Process(int(child.pid_path.read_text())))
        await child.stop()
    return Start(ready_s, cpu_s, pss_mb)


def costs(root: psutil.Process) -> tuple[float, float]:
    """CPU seconds and proportional set size (MB) of ``root`` and all below it; the CPU of those that have ended is counted."""
    processes = [root, *root.children(recursive=True)]
    cpu_s = sum(sum(process.cpu_times()[:4]) for process in processes)  # user, system, and those of children that were waited for
    return cpu_s, sum(process.memory_full_info().pss for process in processes) / 1e6


def summary(starts: list[Start]) -> dict[str, Any]:
    """Medians, and each start."""
    rows = [{name: round(value, 1) for name, value in asdict(start).items()} for start in starts]
    return {name: statistics.median(row[name] for row in rows) for name in Start.__slots__} | {"starts": rows}


async def _engine(model: str, directory: Path) -> ChildSpec:
    """The engine's part of ``headrace up``, on a free port."""
    options = UpOptions(Paths(directory / "data", directory / "config"), model=model)
    model_dir = await ensure_model(options)

    async def serving() -> Served:
        return Served(model_dir, "v000000")

    endpoints = Endpoints("http://127.0.0.1:1", f"http://127.0.0.1:{free_port()}")  # the engine asks nothing of a gateway
    return next(spec for spec in child_specs(options, endpoints, serving, model_dir) if spec.name == ENGINE)


if __name__ == "__main__":
    main()

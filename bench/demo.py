"""The demo over several seeds: does it learn on most of them, and does the control stay where it was?

``python -m bench.demo --seeds 5`` runs ``headrace demo`` once per seed, prints a line for each and one JSON line last,
kept in ``bench/results/demo.json`` as well. A seed that fails is reported as such and the others go on.
"""

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).with_name("results")
GOAL = 0.30
_WANTED = 0.8


def main() -> int:
    """0 if at least four in five seeds reached the goal."""
    parser = argparse.ArgumentParser(prog="python -m bench.demo", description="The demo over several seeds.")
    parser.add_argument("--seeds", type=int, default=5, help="how many, from 1 on")
    parser.add_argument("--arms", default="online,control")
    parser.add_argument("rest", nargs="*", help="more arguments of headrace demo, after --")
    arguments = parser.parse_args()
    found: list[dict[str, Any]] = []
    for seed in range(1, arguments.seeds + 1):
        found.append(_run(seed, ["--arms", arguments.arms, *arguments.rest]))
        line = json.dumps(_summary(arguments.seeds, found))
        RESULTS.mkdir(exist_ok=True)
        (RESULTS / "demo.json").write_text(line + "\n")
    print(line)
    return 0 if _summary(arguments.seeds, found)["num_reached"] >= _WANTED * arguments.seeds else 1


def _summary(num_seeds: int, found: list[dict[str, Any]]) -> dict[str, Any]:
    """What is known after the seeds in ``found``; written after each, so that a long run that breaks off leaves what it had."""
    rises = [row["after"] - row["before"] for row in found if "error" not in row]
    controls = [row["control_after"] - row["control_before"] for row in found if row.get("control_after") is not None]
    return {
        "bench": "demo",
        "at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "machine": f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}",
        "num_seeds": num_seeds,
        "num_reached": sum(rise >= GOAL for rise in rises),
        "rises": [round(rise, 4) for rise in rises],
        "control_rises": [round(rise, 4) for rise in controls],
        "seeds": found,
    }


def _run(seed: int, rest: list[str]) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "found.json"
        command = [sys.executable, "-m", "deploy.cli", "demo", "--seed", str(seed), "--json", str(path), *rest]
        done = subprocess.run(command, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=False)
        if not path.exists():
            found: dict[str, Any] = {"seed": seed, "error": done.stderr.strip()[-1000:]}
        else:
            found = json.loads(path.read_text())
            found.pop("arms")
            if done.returncode != 0:
                found["broken_promise"] = done.stderr.strip()[-1000:]
    print(f"seed {seed}: {found.get('error') or _line(found)}", flush=True)
    return found


def _line(found: dict[str, Any]) -> str:
    control = (
        f", control {found['control_before']:.2f} → {found['control_after']:.2f}" if found["control_after"] is not None else ""
    )
    return (
        f"{found['before']:.2f} → {found['after']:.2f} (n={found['n']}{control}), {found['swaps']} swaps, {found['seconds']:.0f} s"
    )


if __name__ == "__main__":
    sys.exit(main())

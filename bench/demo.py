"""The demo over several seeds: does it learn on most of them, and does the control stay where it was?

``python -m bench.demo --seeds 5`` runs ``headrace demo`` once per seed, prints a line for each and one JSON line last,
kept in ``bench/results/demo.json`` as well. A seed that fails is reported as such and the others go on.
"""

import argparse
import json
import platform
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).with_name("results")
GOAL = 0.30


def main() -> int:
    """0 if at least four in five seeds reached the goal."""
    parser = argparse.ArgumentParser(prog="python -m bench.demo", description="The demo over several seeds.")
    parser.add_argument("--seeds", type=int, default=5, help="how many, from 1 on")
    parser.add_argument("--arms", default="online,control")
    parser.add_argument("rest", nargs="*", help="more arguments of headrace demo, after --")
    arguments = parser.parse_args()
    found = [_run(seed, ["--arms", arguments.arms, *arguments.rest]) for seed in range(1, arguments.seeds + 1)]
    rises = [row["after"] - row["before"] for row in found if "error" not in row]
    summary = {
        "bench": "demo",
        "at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "machine": f"{platform.machine()}, Python {platform.python_version()}",
        "num_seeds": arguments.seeds,
        "num_reached": sum(rise >= GOAL for rise in rises),
        "rises": [round(rise, 4) for rise in rises],
        "control_rises": [
            round(row["control_after"] - row["control_before"], 4) for row in found if row.get("control_after") is not None
        ],
        "seeds": found,
    }
    line = json.dumps(summary)
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "demo.json").write_text(line + "\n")
    print(line)
    return 0 if summary["num_reached"] >= 0.8 * arguments.seeds else 1


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

"""The demo over several seeds: does it learn on most of them, and does the control stay where it was?

``python -m bench.demo --seeds 5`` runs ``headrace demo`` once per seed and arm, every seed's online arm first, a control arm for as
many steps as the online arm of its seed, and prints a line for each. ``bench/results/demo.json`` is written after each, so that a
run that breaks off leaves what it had; ``--resume`` goes on from there. The last line printed is that file. A seed that fails is
reported as such and the others go on.
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

RESULT = Path(__file__).with_name("results") / "demo.json"
ARMS = ("online", "control")
GOAL = 0.30
_WANTED = 0.8

Row = dict[str, Any]


def main() -> int:
    """0 if at least four in five seeds reached the goal."""
    parser = argparse.ArgumentParser(prog="python -m bench.demo", description="The demo over several seeds.")
    parser.add_argument("--seeds", type=int, default=5, help="how many, from 1 on")
    parser.add_argument("--resume", action="store_true", help="keep what the result file holds and run what is missing")
    parser.add_argument("rest", nargs="*", help="more arguments of headrace demo, after --")
    arguments = parser.parse_args()
    rows = _kept() if arguments.resume else {}
    for arm in ARMS:
        for seed in range(1, arguments.seeds + 1):
            row = rows.setdefault(seed, {"seed": seed})
            if _has(row, arm):
                continue
            as_many = ["--steps", str(row["swaps"])] if arm == "control" and row.get("swaps") else []
            row |= _run(seed, arm, [*as_many, *arguments.rest])
            print(f"seed {seed}, {arm}: {_line(row, arm)}", flush=True)
            RESULT.parent.mkdir(exist_ok=True)
            RESULT.write_text(json.dumps(_summary(arguments.seeds, rows)) + "\n")
    print(RESULT.read_text().strip())
    return 0 if _summary(arguments.seeds, rows)["num_reached"] >= _WANTED * arguments.seeds else 1


def _kept() -> dict[int, Row]:
    return {row["seed"]: row for row in json.loads(RESULT.read_text())["seeds"]} if RESULT.exists() else {}


def _has(row: Row, arm: str) -> bool:
    return row.get("after" if arm == "online" else "control_after") is not None


def _run(seed: int, arm: str, rest: list[str]) -> Row:
    """What one arm adds to its seed's row."""
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "found.json"
        command = [sys.executable, "-m", "deploy.cli", "demo", "--arms", arm, "--seed", str(seed), "--json", str(path), *rest]
        done = subprocess.run(command, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=False)
        found: Row = json.loads(path.read_text()) if path.exists() else {}
    failed = {f"{arm}_error": done.stderr.strip()[-1000:]} if done.returncode != 0 else {}
    if arm == "online":
        return {name: value for name, value in found.items() if name != "arms" and not name.startswith("control_")} | failed
    return {name: value for name, value in found.items() if name.startswith("control_")} | failed


def _line(row: Row, arm: str) -> str:
    if not _has(row, arm):
        return str(row[f"{arm}_error"])
    if arm == "control":
        return f"{row['control_before']:.2f} → {row['control_after']:.2f}"
    return f"{row['before']:.2f} → {row['after']:.2f} (n={row['n']}), {row['swaps']} swaps, {row['seconds']:.0f} s"


def _summary(num_seeds: int, rows: dict[int, Row]) -> Row:
    rises = [row["after"] - row["before"] for row in rows.values() if _has(row, "online")]
    controls = [row["control_after"] - row["control_before"] for row in rows.values() if _has(row, "control")]
    return {
        "bench": "demo",
        "at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "machine": f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}",
        "num_seeds": num_seeds,
        "num_reached": sum(rise >= GOAL for rise in rises),
        "rises": [round(rise, 4) for rise in rises],
        "control_rises": [round(rise, 4) for rise in controls],
        "seeds": list(rows.values()),
    }


if __name__ == "__main__":
    sys.exit(main())

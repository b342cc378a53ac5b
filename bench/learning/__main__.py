"""Learning experiments over several seeds.

``python -m bench.learning [--seeds 5] [--arms NAME …]`` runs every arm of every seed that ``bench/results/learning.json`` lacks,
writes the file after each, and ends with one JSON line; ``--report`` only draws ``docs/learning.png`` and prints the table. A run
takes ten seconds on a core, a seed's starting model forty. ``nice -n 15`` leaves the machine to others; one thread is used.
"""

import argparse
import json
import os
import tempfile
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch

from bench.learning.arms import ARMS
from bench.learning.loop import Plan, run_arm
from bench.learning.report import draw, summary, table
from bench.learning.task import make_model
from workers.trainer.ranks import Ranks, start_ranks, stop_ranks

RESULT = Path(__file__).parents[1] / "results" / "learning.json"
PICTURE = Path(__file__).parents[2] / "docs" / "learning.png"


def main() -> None:
    """Run what is missing and report."""
    parser = argparse.ArgumentParser(prog="python -m bench.learning", description=__doc__)
    parser.add_argument("--seeds", type=int, default=5, help="how many, from 1 on")
    parser.add_argument("--arms", nargs="*", choices=[arm.name for arm in ARMS], help="only these")
    parser.add_argument("--report", action="store_true", help="run nothing; draw the picture and print the table")
    chosen = parser.parse_args()
    runs: dict[str, dict[str, Any]] = json.loads(RESULT.read_text())["runs"] if RESULT.exists() else {}
    if not chosen.report:
        torch.set_num_threads(1)
        ranks = start_ranks()
        for seed in range(1, chosen.seeds + 1):
            _run_seed(seed, chosen.arms, runs, ranks)
        stop_ranks()
    found = summary(runs)
    draw(runs, PICTURE)
    print("\n".join(table(found)))
    print(json.dumps({"bench": "learning", **found}))


def _run_seed(seed: int, names: list[str] | None, runs: dict[str, dict[str, Any]], ranks: Ranks) -> None:
    missing = [arm for arm in ARMS if str(seed) not in runs.get(arm.name, {}) and (not names or arm.name in names)]
    if not missing:
        return
    with tempfile.TemporaryDirectory() as directory:
        model = make_model(Path(directory), seed)
        for arm in missing:
            started = time.monotonic()
            curve = run_arm(arm, seed, model, ranks, Plan())
            runs.setdefault(arm.name, {})[str(seed)] = {**asdict(curve), "seconds": round(time.monotonic() - started, 1)}
            print(f"seed {seed}, {arm.name}: {curve.success[0]:.2f} → {curve.success[-1]:.2f}, {curve.steps} steps", flush=True)
            _keep(runs)


def _keep(runs: dict[str, dict[str, Any]]) -> None:
    """Whole or not at all, so that a run that is ended goes on from here."""
    temporary = RESULT.with_suffix(".tmp")
    temporary.write_text(json.dumps({"bench": "learning", "plan": asdict(Plan()), "summary": summary(runs), "runs": runs}) + "\n")
    temporary.rename(RESULT)


if __name__ == "__main__":
    main()

"""What the long forms found, kept beside the results of the benchmarks: ``bench/results/durability.json``."""

import json
import os
from pathlib import Path

RESULT = Path(__file__).parents[2] / "bench" / "results" / "durability.json"


def keep(name: str, **figures: object) -> None:
    """Put ``figures`` down under ``name``, and print them; the other names stay as they are."""
    known = json.loads(RESULT.read_text()) if RESULT.exists() else {}
    known[name] = {**figures, "cores": os.cpu_count()}
    RESULT.write_text(json.dumps(known, indent=1, sort_keys=True) + "\n")
    print(json.dumps({name: known[name]}))

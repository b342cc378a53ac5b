"""Metrics: one JSON line and one log line a step, and the seconds of each phase."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

logger = logging.getLogger(__name__)


class Phases:
    """Seconds by phase, as `<name>_s`; `total_s` runs from the beginning."""

    def __init__(self) -> None:
        self._started = time.monotonic()
        self._seconds: dict[str, float] = {}

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Time a block."""
        started = time.monotonic()
        yield
        self._seconds[f"{name}_s"] = time.monotonic() - started

    def seconds(self) -> dict[str, float]:
        """So far."""
        return {**self._seconds, "step_s": time.monotonic() - self._started}


def write_metrics(path: Path, version: str, parent: str, numbers: Mapping[str, float], left_out: Mapping[str, int]) -> None:
    """Append a line to `path` and log the gist. No ids of trajectories, no text."""
    path.parent.mkdir(parents=True, exist_ok=True)
    line = {"time_us": time.time_ns() // 1000, "version": version, "parent": parent, **numbers, "left_out": dict(left_out)}
    with path.open("a") as file:
        file.write(json.dumps(line) + "\n")
    shown = (
        "reward_mean",
        "advantage_std",
        "entropy",
        "kl_behaviour_proximal",
        "logprob_diff_median",
        "grad_norm",
        "train_s",
        "step_s",
    )
    gist = " ".join(f"{name}={numbers[name]:.4g}" for name in shown if name in numbers)
    logger.info("%s from %s: %s", version, parent, gist)

"""Metrics: what each step measured, to wherever people look.

Owns the JSON line (metrics.jsonl), the log line, the Prometheus text and, where it is asked for, TensorBoard; and the seconds of
each phase. No ids of trajectories, no text of theirs. Not owned: what is measured (`statistics`, `batch`).
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from atdp.versions import version_index
from workers.trainer.errors import MissingExtra
from workers.trainer.paths import TrainerPaths
from workers.trainer.prometheus import Exporter, render, write_text
from workers.trainer.settings import Settings

if TYPE_CHECKING:
    from torch.utils.tensorboard import SummaryWriter

logger = logging.getLogger(__name__)

_SHOWN: Final = (
    "reward_mean", "advantage_std", "entropy", "kl_behaviour_proximal", "logprob_diff_median", "grad_norm", "train_s", "step_s",
)  # fmt: skip


class Phases:
    """Seconds by phase, as `<name>_s`; `step_s` runs from the beginning."""

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


class Reporter:
    """Tells everybody about each step. Lives on the first rank.

    Raises: MissingExtra where TensorBoard is asked for and not installed.
    """

    def __init__(self, settings: Settings, paths: TrainerPaths) -> None:
        self._paths = paths
        self._num_steps = 0
        self._board = open_board(paths.tensorboard) if settings.tensorboard else None
        self._exporter = Exporter(settings.metrics_host, settings.metrics_port) if settings.metrics_port else None

    def report(self, version: str, parent: str, numbers: Mapping[str, float], left_out: Mapping[str, int]) -> None:
        """Tell of the step that made `version`."""
        self._num_steps += 1
        index = version_index(version)
        _append(self._paths.metrics, version, parent, numbers, left_out)
        text = render({**numbers, "version": float(index), "steps_total": float(self._num_steps)}, left_out)
        write_text(self._paths.prometheus, text)
        if self._exporter is not None:
            self._exporter.text = text
        if self._board is not None:
            for name, value in numbers.items():
                self._board.add_scalar(name, value, index)
            self._board.flush()
        gist = " ".join(f"{name}={numbers[name]:.4g}" for name in _SHOWN if name in numbers)
        logger.info("%s from %s: %s", version, parent, gist)

    def close(self) -> None:
        """Write out and stop serving."""
        if self._board is not None:
            self._board.close()
        if self._exporter is not None:
            self._exporter.close()


def open_board(directory: Path) -> SummaryWriter:
    """A TensorBoard writer.

    Raises: MissingExtra.
    """
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ModuleNotFoundError as error:
        raise MissingExtra("TensorBoard is not installed: pip install 'headrace[tensorboard]'") from error
    return SummaryWriter(str(directory))


def _append(path: Path, version: str, parent: str, numbers: Mapping[str, float], left_out: Mapping[str, int]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    line = {"time_us": time.time_ns() // 1000, "version": version, "parent": parent, **numbers, "left_out": dict(left_out)}
    with path.open("a") as file:
        file.write(json.dumps(line) + "\n")

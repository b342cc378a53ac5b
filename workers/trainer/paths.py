"""Where the trainer's files lie under the data directory."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(slots=True, frozen=True)
class TrainerPaths:
    """One data directory, shared with the data proxy and the engines."""

    data_dir: Path

    @property
    def versions(self) -> Path:
        """One directory to a policy version."""
        return self.data_dir / "versions"

    @property
    def checkpoints(self) -> Path:
        """One directory to a checkpoint, named by its version."""
        return self.data_dir / "trainer" / "checkpoints"

    def checkpoints_of(self, adapter: str | None) -> Path:
        """The same for an adapter, by its shape's name: none other can read them."""
        return self.checkpoints if adapter is None else self.data_dir / "trainer" / adapter

    @property
    def step_record(self) -> Path:
        """The step in progress (`step_record.StepRecord`); absent between steps."""
        return self.data_dir / "trainer" / "step.json"

    @property
    def metrics(self) -> Path:
        """One JSON line a step."""
        return self.data_dir / "trainer" / "metrics.jsonl"

    @property
    def prometheus(self) -> Path:
        """The numbers of the last step in Prometheus' text format."""
        return self.data_dir / "trainer" / "metrics.prom"

    @property
    def tensorboard(self) -> Path:
        """TensorBoard's event files."""
        return self.data_dir / "trainer" / "tensorboard"

    @property
    def publish_lock(self) -> Path:
        """Held by whoever publishes."""
        return self.data_dir / "run" / "publish.lock"

    @property
    def compute(self) -> Path:
        """Who has the shared cores (`gate.ComputeState`); absent while no trainer follows the load."""
        return self.data_dir / "run" / "compute.json"

    @property
    def socket(self) -> Path:
        """The data proxy's."""
        return self.data_dir / "run" / "dataproxy.sock"

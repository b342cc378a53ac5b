"""What ``headrace up`` was asked for, as one value."""

from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from deploy.paths import Paths

DType = Literal["float32", "bfloat16"]

SMOLLM2: Final = "smollm2"
TINY: Final = "tiny"


@dataclass(slots=True, frozen=True)
class UpOptions:
    """``model`` is ``smollm2``, ``tiny`` or a directory; ``num_ranks`` counts the trainer's processes, ``num_gateways``
    those of the gateway; port 0: a free one.
    """

    paths: Paths
    host: str = "127.0.0.1"
    port: int = 8080
    model: str = SMOLLM2
    dtype: DType = "float32"
    num_ranks: int = 1
    num_gateways: int = 1
    num_workers: int = 1
    """Engines, each with a copy of the model; weights are swapped in one after another."""
    train: bool = True
    train_consent: bool = False
    tenant: str = "default"
    for_program: bool = False
    """Started by a program: no banner, and no first key, which the program makes for itself."""
    database_url: str | None = None
    """PostgreSQL for the store, by the data proxy's role; None: SQLite in the data directory."""
    database_owner_url: str | None = None
    """The same by the role that owns it, for migrations."""
    engine_args: tuple[str, ...] = ()
    """SGLang's own flags, such as ``--tool-call-parser hermes``, appended to ours."""

    @property
    def model_name(self) -> str:
        """The name agents call the model by."""
        known = {SMOLLM2: "SmolLM2-135M-Instruct", TINY: "headrace-tiny"}
        return known.get(self.model, Path(self.model).name)

    @property
    def needed_bytes(self) -> int:
        """Memory to be free before anything starts."""
        engine = 2.0 if self.model == TINY else 2.5
        trainer = (0.7 if self.model == TINY else 2.0) * self.num_ranks if self.train else 0.0
        external = 0.5 if self.paths.external_file.exists() else 0.0
        return int((engine * self.num_workers + trainer + external + 0.5) * 2**30)

"""What it takes to run SGLang on a machine without a GPU, as environment of the engine's processes.

Owns the decision whether the profile applies, and two workarounds that sit in `path/`: an empty
`torchvision._meta_registrations` (in `sitecustomize.py`) and a stand-in for the `sgl_kernel` package. SGLang starts its
scheduler and detokenizer as fresh interpreters, so both travel by PYTHONPATH. Not owned: SGLang's arguments
(`launch.py`). Place in the path: before step 1. A GPU host gets no profile.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

PATH = Path(__file__).parent / "path"


def applies() -> bool:
    """True where no NVIDIA device node exists, so that SGLang has to run on the CPU."""
    return not Path("/dev/nvidiactl").exists()


def environment(base: Mapping[str, str], num_threads: int) -> dict[str, str]:
    """Return `base` with the profile added; `num_threads` bounds OpenMP in each process of the engine.

    Passive waiting matters where a trainer shares the cores: OpenMP's default spins at every barrier, which
    takes time from the other's threads.
    """
    path = os.pathsep.join(entry for entry in (str(PATH), base.get("PYTHONPATH", "")) if entry)
    return {
        **base,
        "PYTHONPATH": path,
        "SGLANG_USE_CPU_ENGINE": "1",
        "OMP_NUM_THREADS": str(num_threads),
        "OMP_WAIT_POLICY": "PASSIVE",
        "OPENBLAS_NUM_THREADS": "1",  # numpy's; the engine is forked while it has one thread (`one_import`)
    }

"""What this machine computes fast in."""

from pathlib import Path
from typing import Final, Literal

_GPUS: Final = ("dev/nvidia0", "dev/kfd")
_FLAGS: Final = {"flags": ("avx512_bf16", "amx_bf16"), "Features": ("bf16",)}
"""By the name of the line in /proc/cpuinfo: x86 and ARM."""


def fast_dtype(root: Path = Path("/")) -> Literal["float32", "bfloat16"]:
    """bfloat16 where a GPU or the processor multiplies it; elsewhere torch emulates it, for dozens of times the CPU time."""
    if any((root / gpu).exists() for gpu in _GPUS):
        return "bfloat16"
    try:
        lines = (root / "proc/cpuinfo").read_text().splitlines()
    except OSError:
        return "float32"
    found = (line.partition(":")[::2] for line in lines)
    native = any(flag in value.split() for name, value in found for flag in _FLAGS.get(name.strip(), ()))
    return "bfloat16" if native else "float32"

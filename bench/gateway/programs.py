"""Mock engine and load generator: C compiled on the spot where there is a compiler, else the slower ones on raw asyncio."""

import hashlib
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Literal

Program = Literal["mock_engine", "load"]
CACHE = Path("~/.cache/headrace/bench").expanduser()
_SOURCES = Path(__file__).parent / "native"


def command(program: Program) -> list[str]:
    """How to start ``program``, without its arguments."""
    compiler = shutil.which("cc")
    if compiler is None:
        return [sys.executable, "-m", f"bench.gateway.{program}"]
    source = _SOURCES / f"{program}.c"
    digest = hashlib.sha256(source.read_bytes()).hexdigest()[:16]
    binary = CACHE / f"{program}-{digest}"
    if not binary.exists():
        CACHE.mkdir(parents=True, exist_ok=True)
        temporary = binary.with_suffix(".new")
        subprocess.run([compiler, "-O2", "-o", str(temporary), str(source)], check=True)
        temporary.rename(binary)
    return [str(binary)]


def is_compiled() -> bool:
    """Whether the programs are the C ones."""
    return shutil.which("cc") is not None

"""Environments of the peers that are Python packages: made on demand under a cache directory, never the project's own."""

import subprocess
import sys
from pathlib import Path

from bench.gateway.programs import CACHE


class MissingError(RuntimeError):
    """A peer is not here and cannot be installed; says why in one line."""


def python_with(package: str, timeout_s: float) -> Path:
    """The interpreter of an environment that has ``package`` (``litellm[proxy]``); made if it is missing.

    Raises:
        MissingError: no wheel, no index, or it takes longer than ``timeout_s``.
    """
    directory = CACHE / package.partition("[")[0]
    python, made = directory / "bin" / "python", directory / "made"
    if made.exists() and made.read_text() == package:
        return python
    print(f"bench: making an environment for {package} (once)", file=sys.stderr)
    try:
        subprocess.run([sys.executable, "-m", "venv", str(directory)], check=True, capture_output=True, timeout=timeout_s)
        install = [str(python), "-m", "pip", "install", "-q", "--only-binary", ":all:", package]
        subprocess.run(install, check=True, capture_output=True, timeout=timeout_s)
    except subprocess.TimeoutExpired as error:
        raise MissingError(f"{package} could not be installed within {timeout_s:.0f} s") from error
    except subprocess.CalledProcessError as error:
        reason = error.stderr.decode(errors="replace").strip().splitlines()[-1:] or ["no reason given"]
        raise MissingError(f"{package} could not be installed: {reason[0]}") from error
    made.write_text(package)
    return python


def version(python: Path, package: str) -> str:
    """The installed version of ``package`` in ``python``'s environment."""
    code = f"import importlib.metadata as m; print(m.version({package.partition('[')[0]!r}))"
    return subprocess.run([str(python), "-c", code], check=True, capture_output=True, text=True).stdout.strip()

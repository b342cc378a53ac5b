"""Callables that a test names as its evaluation."""

from pathlib import Path


def count_tensors(directory: Path) -> dict[str, float]:
    """Something that depends on the version's files."""
    from safetensors import safe_open

    with safe_open(directory / "model.safetensors", framework="pt") as file:
        return {"tensors": len(file.keys()), "half": 0.5}


def one_number(directory: Path) -> float:
    """Not an object."""
    return 0.25


def broken(directory: Path) -> float:
    """Fails."""
    raise RuntimeError("no held-out set")


def infinite(directory: Path) -> float:
    """Is not a score."""
    return float("inf")

"""Writes files so that after a crash of process or machine they are whole or absent."""

from __future__ import annotations

import os
from pathlib import Path


def sync(path: Path) -> None:
    """Bring a file, or the entries of a directory, to the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def replace_file(path: Path, content: bytes) -> None:
    """Write `content` beside `path` and rename it there."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.new")
    temporary.write_bytes(content)
    sync(temporary)
    temporary.rename(path)
    sync(path.parent)


def remove_file(path: Path) -> None:
    """Remove `path` for good, if it is there."""
    if path.exists():
        path.unlink()
        sync(path.parent)

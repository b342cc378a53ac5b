"""Keeping versions: which stay on the disk, which are pinned, which may go, and a version as a plain Hugging Face folder.

Owns the pin (a file in the version's directory) and the rule of collection. Needs no torch. Not owned: the layout of a version
(`version_directory`), the commands (`versions`).
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Final

from workers.trainer.adapter import FOLDER as ADAPTER
from workers.trainer.durable import remove_file, replace_file, sync
from workers.trainer.errors import VersionUnavailable
from workers.trainer.version_directory import (
    BASE_VERSION,
    MANIFEST,
    READY,
    SCORES,
    discard,
    is_complete,
    lineage,
    read_manifest,
    verify,
)

PIN: Final = "PINNED"
_OURS: Final = frozenset({MANIFEST, READY, SCORES, PIN, ADAPTER})


def pin(directory: Path, reason: str) -> None:
    """Keep a version for as long as it is pinned, whatever becomes of its line.

    Raises: VersionUnavailable.
    """
    read_manifest(directory)
    replace_file(directory / PIN, reason.encode())


def unpin(directory: Path) -> None:
    """Take the pin away, if there is one.

    Raises: VersionUnavailable.
    """
    read_manifest(directory)
    remove_file(directory / PIN)


def pin_of(directory: Path) -> str | None:
    """The reason for a version's pin; None where it has none."""
    path = directory / PIN
    return path.read_text() if path.exists() else None


def expendable(root: Path, head: str, keep: int, serving: set[str]) -> list[str]:
    """The versions that may go.

    Kept: v000000, what is serving, what is pinned, the last `keep` of the head's line, and the `keep` newest, so that a rollback
    can be rolled back; and the version that an adapter of one of these belongs to.
    """
    names = sorted(path.name for path in root.iterdir())
    pinned = {name for name in names if pin_of(root / name) is not None}
    kept = {BASE_VERSION, *serving, *pinned, *names[-keep:], *(manifest.version for manifest in lineage(root, head)[:keep])}
    manifests = [read_manifest(root / name) for name in kept if is_complete(root / name)]
    kept |= {manifest.adapter.base for manifest in manifests if manifest.adapter is not None}
    return [name for name in names if name not in kept]


def collect(root: Path, head: str, keep: int, serving: set[str]) -> list[str]:
    """Remove the versions that may go; gives their names."""
    removed = expendable(root, head, keep, serving)
    for name in removed:
        discard(root / name)
    return removed


def size_of(directory: Path) -> int:
    """Bytes that would be free without the directory; files that another version links to are not counted."""
    stats = [path.stat() for path in directory.rglob("*") if path.is_file()]
    return sum(stat.st_size for stat in stats if stat.st_nlink == 1)


def export(directory: Path, target: Path) -> None:
    """Copy a version, an adapter merged in, to a folder that transformers loads by itself; every tensor is verified first.

    Raises: VersionUnavailable where the version is not whole; FileExistsError where `target` holds something.
    """
    manifest = verify(directory)
    if target.exists() and any(target.iterdir()):
        raise FileExistsError(f"{target} is not empty; name a folder that does not exist yet")
    staging = target.with_name(f".{target.name}.new")
    shutil.rmtree(staging, ignore_errors=True)
    staging.mkdir(parents=True)
    for path in directory.iterdir():
        if path.name not in _OURS:
            shutil.copyfile(path, staging / path.name)
    config = json.loads((staging / "config.json").read_text())
    if manifest.dtype != "unknown":
        config["dtype"] = manifest.dtype
    (staging / "config.json").write_text(json.dumps(config, indent=2) + "\n")
    for path in (*staging.iterdir(), staging):
        sync(path)
    if target.exists():
        target.rmdir()
    staging.rename(target)


def must_exist(root: Path, version: str) -> Path:
    """The directory of a complete version.

    Raises: VersionUnavailable, with the names that there are.
    """
    directory = root / version
    if not is_complete(directory):
        there = sorted(path.name for path in root.iterdir() if is_complete(path)) if root.is_dir() else []
        raise VersionUnavailable(f"{version} is not on this disk; there are {', '.join(there) or 'none'}")
    return directory

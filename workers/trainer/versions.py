"""`python -m workers.trainer.versions`: list, pin, unpin, collect and export the versions on this disk.

`headrace versions` calls it. Needs no torch and no process of Headrace; `gc` is told what serves. Gives one JSON object or list.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from workers.trainer.errors import TrainerError
from workers.trainer.paths import TrainerPaths
from workers.trainer.publish_lock import publish_lock
from workers.trainer.version_directory import is_complete, read_manifest, read_scores
from workers.trainer.version_keeping import collect, expendable, export, must_exist, pin, pin_of, size_of, unpin


def main(arguments: list[str] | None = None) -> int:
    """Do what the arguments say. Gives the exit status: 0, or 1 with a sentence on standard error."""
    chosen = _parser().parse_args(arguments)
    paths = TrainerPaths(chosen.data_dir)
    try:
        found = _do(chosen, paths)
    except (TrainerError, OSError) as error:
        print(error, file=sys.stderr)
        return 1
    print(json.dumps(found))
    return 0


def _do(chosen: argparse.Namespace, paths: TrainerPaths) -> object:
    if chosen.command == "list":
        return listed(paths.versions)
    if chosen.command == "gc":
        return garbage(paths, chosen.serving, chosen.keep, chosen.remove, chosen.also)
    directory = must_exist(paths.versions, chosen.version)
    if chosen.command == "export":
        export(directory, chosen.target)
    elif chosen.command == "pin":
        pin(directory, chosen.reason)
    else:
        unpin(directory)
    return {"version": chosen.version, "pinned": pin_of(directory)}


def listed(root: Path) -> list[dict[str, object]]:
    """Every complete version: bytes, pin, held-out scores, and what its adapter is added to."""
    rows: list[dict[str, object]] = []
    for directory in sorted(path for path in root.iterdir() if is_complete(path)) if root.is_dir() else []:
        adapter = read_manifest(directory).adapter
        rows.append(
            {
                "version": directory.name,
                "bytes": size_of(directory),
                "pinned": pin_of(directory),
                "scores": read_scores(directory),
                "adapter_base": None if adapter is None else adapter.base,
            }
        )
    return rows


def garbage(paths: TrainerPaths, serving: str, keep: int, remove: bool, also: Sequence[str] = ()) -> dict[str, object]:
    """What may go, and whether it went; nobody publishes meanwhile. `also` is held by engines as well: a canary."""
    with publish_lock(paths.publish_lock):
        names = expendable(paths.versions, serving, keep, {serving, *also})
        size = sum(size_of(paths.versions / name) for name in names)
        if remove:
            collect(paths.versions, serving, keep, {serving, *also})
    return {"versions": names, "bytes": size, "removed": remove}


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m workers.trainer.versions", description=__doc__)
    parser.add_argument("--data-dir", type=Path, required=True)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("list")
    for name in ("pin", "unpin", "export"):
        command = commands.add_parser(name)
        command.add_argument("version")
        if name == "pin":
            command.add_argument("--reason", default="")
        if name == "export":
            command.add_argument("target", type=Path)
    collecting = commands.add_parser("gc")
    collecting.add_argument("--serving", required=True)
    collecting.add_argument("--keep", type=_at_least_one, required=True)
    collecting.add_argument("--also", action="append", default=[], help="another version that engines hold")
    collecting.add_argument("--remove", action="store_true")
    return parser


def _at_least_one(text: str) -> int:
    if (number := int(text)) < 1:
        raise argparse.ArgumentTypeError("keep at least one version")
    return number


if __name__ == "__main__":
    sys.exit(main())

"""The step in progress, on disk: what a restarted trainer needs to finish or undo what its predecessor began.

Owns one small file, written before a step and removed after its ack. Place in the path: step 3, around train and publish.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from workers.trainer.durable import remove_file, replace_file


class StepRecord(msgspec.Struct, frozen=True):
    """A batch that is being trained on. `trained` and `skipped` are what the ack will say."""

    lease_id: str
    batch_id: str
    version: str
    parent: str
    trained: list[str]
    skipped: dict[str, str]


def write_record(path: Path, record: StepRecord) -> None:
    """Put it on disk before anything is computed."""
    replace_file(path, msgspec.json.encode(record))


def read_record(path: Path) -> StepRecord | None:
    """The step that a predecessor left, or None."""
    return msgspec.json.decode(path.read_bytes(), type=StepRecord) if path.exists() else None


def clear_record(path: Path) -> None:
    """The step is over: its lease is acked."""
    remove_file(path)

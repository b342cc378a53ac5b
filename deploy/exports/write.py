"""Each format: which stream it reads, and how it writes it. Gives the number of rows."""

from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import msgspec

from atdp.exports.atif import atif_trajectory
from atdp.exports.chat import chat_rows
from atdp.exports.jsonl import event_line
from atdp.exports.otlp import trace_request
from atdp.exports.types import ExportedEvent, ExportedTrajectory
from deploy.exports.files import lines_to
from deploy.exports.parquet import write_parquet

_SPANS = 100


def write_jsonl(path: Path, items: Iterable[ExportedEvent]) -> int:
    """ATDP events, one a line."""
    return _write(path, (event_line(item) for item in items))


def write_otlp(path: Path, items: Iterable[ExportedEvent]) -> int:
    """OTLP/JSON as collectors' file exporters write it: one ``ExportTraceServiceRequest`` a line, of at most ``_SPANS`` spans."""
    num, source = 0, iter(items)
    with lines_to(path) as file:
        while batch := list(islice(source, _SPANS)):
            num += len(batch)
            file.write(msgspec.json.encode(trace_request(batch)) + b"\n")
    return num


def write_chat(path: Path, items: Iterable[ExportedTrajectory]) -> int:
    """Conversations for ``datasets.load_dataset("json", …)``, one a line."""
    return _write(path, (msgspec.json.encode(row) for item in items for row in chat_rows(item)))


def write_atif(path: Path, items: Iterable[ExportedTrajectory]) -> int:
    """ATIF, one trajectory a line; into a directory, one file a trajectory."""
    found = (atif for item in items if (atif := atif_trajectory(item)) is not None)
    if not path.is_dir():
        return _write(path, (msgspec.json.encode(atif) for atif in found))
    return sum(_write(path / f"{_file_name(atif)}.json", iter([msgspec.json.encode(atif)])) for atif in found)


OF_EVENTS: dict[str, Callable[[Path, Iterable[ExportedEvent]], int]] = {
    "jsonl": write_jsonl,
    "parquet": write_parquet,
    "otlp": write_otlp,
}
OF_TRAJECTORIES: dict[str, Callable[[Path, Iterable[ExportedTrajectory]], int]] = {"atif": write_atif, "chat": write_chat}


def _write(path: Path, lines: Iterator[bytes]) -> int:
    num = 0
    with lines_to(path) as file:
        for line in lines:
            num += 1
            file.write(line + b"\n")
    return num


def _file_name(atif: dict[str, Any]) -> str:
    """The trajectory's id, which is of our making but for what a sender named."""
    return "".join(c if c.isalnum() or c in "-_." else "_" for c in atif["trajectory_id"]).lstrip(".") or "trajectory"

"""Parquet by pyarrow, which is an extra: envelope and tokens in columns of their types, the open parts as JSON text.

One row group for each ``GROUP`` events is all that is in memory.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

import msgspec
import numpy as np

from atdp.exports.types import ExportedEvent
from deploy.errors import DeployError
from deploy.exports.files import whole_file

GROUP: Final = 500
_TEXTS: Final = (
    "atdp",
    "event_id",
    "tenant",
    "agent",
    "subject",
    "session_id",
    "lane",
    "trajectory_id",
    "parent_id",
    "kind",
    "boundary",
)
_NUMBERS: Final = ("seq", "started_at", "ended_at")
_OPEN: Final = ("o", "h", "a", "y", "r", "m", "spans", "extra")
_ARRAYS: Final = {
    "prompt_ids": "<i4", "output_ids": "<i4", "logprobs": "<f4", "versions": "<i4", "prompt_altered": "u1", "output_altered": "u1"
}  # fmt: skip


class PyarrowMissing(DeployError):
    """The extra is not installed."""


def write_parquet(path: Path, items: Iterable[ExportedEvent]) -> int:
    """Write ``items`` to ``path``; gives their number.

    Raises:
        PyarrowMissing: install the extra.
    """
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise PyarrowMissing("Parquet needs pyarrow: pip install 'headrace[parquet]'") from error
    schema = _schema(pyarrow)
    num, rows = 0, []
    with whole_file(path) as partial, pyarrow.parquet.ParquetWriter(partial, schema, compression="zstd") as writer:
        for item in items:
            rows.append(row_of(item))
            num += 1
            if len(rows) == GROUP:
                writer.write_table(pyarrow.Table.from_pylist(rows, schema))
                rows = []
        if rows or not num:
            writer.write_table(pyarrow.Table.from_pylist(rows, schema))
    return num


def row_of(item: ExportedEvent) -> dict[str, Any]:
    """The row of an event."""
    event = item.event
    row: dict[str, Any] = {name: getattr(event, name) for name in (*_TEXTS, *_NUMBERS)}
    row |= {name: msgspec.json.encode(getattr(event, name)).decode() for name in _OPEN}
    row["tokens"] = [
        {"choice": record.choice, "finish_reason": record.finish_reason, "tokenizer": record.tokenizer}
        | {name: np.frombuffer(getattr(record, name), dtype) for name, dtype in _ARRAYS.items()}
        for record in item.tokens
    ]
    row["training"] = [{"choice": choice, "decision": decision} for choice, decision in sorted(item.decisions.items())]
    return row


def _schema(pyarrow: Any) -> Any:
    types = {"<i4": pyarrow.int32(), "<f4": pyarrow.float32(), "u1": pyarrow.uint8()}
    arrays = [(name, pyarrow.list_(types[dtype])) for name, dtype in _ARRAYS.items()]
    texts = [("finish_reason", pyarrow.string()), ("tokenizer", pyarrow.string())]
    token = pyarrow.struct([("choice", pyarrow.int32()), *texts, *arrays])
    decision = pyarrow.struct([("choice", pyarrow.int32()), ("decision", pyarrow.string())])
    fields = [(name, pyarrow.string()) for name in (*_TEXTS, *_OPEN)] + [(name, pyarrow.int64()) for name in _NUMBERS]
    return pyarrow.schema([*fields, ("tokens", pyarrow.list_(token)), ("training", pyarrow.list_(decision))])

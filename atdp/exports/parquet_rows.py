"""Events as rows of a Parquet file: envelope and tokens in columns of their types, the open parts as JSON text. Pure.

Whoever writes the file brings pyarrow; nothing here needs it.
"""

from typing import Any, Final

import msgspec
import numpy as np

from atdp.exports.types import ExportedEvent

_TEXTS: Final = (
    "atdp",
    "event_id",
    "tenant",
    "agent",
    "subject",
    "session_id",
    "group",
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


def schema_of(pyarrow: Any) -> Any:
    """The schema of those rows, made with the module ``pyarrow``."""
    types = {"<i4": pyarrow.int32(), "<f4": pyarrow.float32(), "u1": pyarrow.uint8()}
    arrays = [(name, pyarrow.list_(types[dtype])) for name, dtype in _ARRAYS.items()]
    texts = [("finish_reason", pyarrow.string()), ("tokenizer", pyarrow.string())]
    token = pyarrow.struct([("choice", pyarrow.int32()), *texts, *arrays])
    decision = pyarrow.struct([("choice", pyarrow.int32()), ("decision", pyarrow.string())])
    fields = [(name, pyarrow.string()) for name in (*_TEXTS, *_OPEN)] + [(name, pyarrow.int64()) for name in _NUMBERS]
    return pyarrow.schema([*fields, ("tokens", pyarrow.list_(token)), ("training", pyarrow.list_(decision))])

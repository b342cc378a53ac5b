"""What a leaf commits to: a redacted row and all that hangs on it, in one canonical form.

The same functions serve a row that is about to be stored and one that is read back to be checked. Texts and arrays are committed
to as they are before compression, so that an export can be read and checked without the store, and packed anew by another.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from operator import itemgetter
from typing import Any

import msgspec
from sqlalchemy import Boolean, Float, Table

from dataproxy.ledger.leaf import part
from dataproxy.store.schema import content_span, eligibility, event, event_span, token_segment

ARRAYS = ("prompt_ids", "output_ids", "logprobs", "versions", "prompt_altered", "output_altered")
_FLAGS = {0: False, 1: True}
"""SQLite has no Boolean. Whatever else stands in such a column is left as it is, and is then not what was committed to."""
Row = Mapping[str, Any]


@dataclass(slots=True, frozen=True)
class OwnedTokens:
    """The tokens of one choice: a row of ``token_segment`` and its arrays, not compressed, in the order of ARRAYS."""

    row: Row
    arrays: Sequence[bytes]


@dataclass(slots=True, frozen=True)
class OwnedContent:
    """A content that an event was the first to store; ``spans`` are rows of ``content_span``."""

    digest: bytes
    data: bytes
    spans: Sequence[Row]


def row_content(table: Table, row: Row) -> bytes:
    """The content of a row that stands alone."""
    return part(b"row", _encoder(table, ("tenant",))(row))


def event_content(
    row: Row,
    body: bytes,
    spans: Sequence[Row],
    decisions: Sequence[Row],
    tokens: Sequence[OwnedTokens],
    contents: Iterable[OwnedContent],
) -> bytes:
    """The content of an event but for its position: row, body (JSON), spans, decisions, tokens by choice, contents by digest."""
    parts = [part(b"row", _encoder(event, ("tenant", "body", "position"))(row)), part(b"body", body)]
    if spans:
        parts.append(part(b"spans", _many(event_span, ("tenant", "event_id"), spans)))
    if decisions:
        parts.append(part(b"decisions", _many(eligibility, ("tenant", "event_id"), decisions)))
    for item in sorted(tokens, key=lambda one: one.row["choice"]) if len(tokens) > 1 else tokens:
        parts.append(part(b"tokens", _encoder(token_segment, ("tenant", "event_id", *ARRAYS))(item.row)))
        parts.extend(part(name.encode(), data) for name, data in zip(ARRAYS, item.arrays, strict=True))
    for owned in sorted(contents, key=lambda one: one.digest):
        parts.append(content_content(owned))
    return b"".join(parts)


def content_content(owned: OwnedContent) -> bytes:
    """The part of a content in its event, or the whole of one that has a leaf of its own."""
    spans = part(b"content_spans", _many(content_span, ("tenant", "digest"), owned.spans)) if owned.spans else b""
    return part(b"content", owned.digest) + part(b"data", owned.data) + spans


def _many(table: Table, without: tuple[str, ...], rows: Sequence[Row]) -> bytes:
    encode = _encoder(table, without)
    return b"[" + b",".join([encode(row) for row in rows]) + b"]"


@cache
def _encoder(table: Table, without: tuple[str, ...]) -> Callable[[Row], bytes]:
    """JSON of a row: its columns but ``without``, in their order; numbers of a float column as floats, bytes as base64.

    A column that came later says what its rows before it have (``info["absent"]``), and is left out where it has that.
    """
    columns = [column for column in table.columns if column.name not in without]
    names = tuple(column.name for column in columns)
    values_of = itemgetter(*names)
    floats = tuple(column.name for column in columns if isinstance(column.type, Float))
    flags = tuple(column.name for column in columns if isinstance(column.type, Boolean))
    later = tuple((column.name, column.info["absent"]) for column in columns if "absent" in column.info)
    encode = msgspec.json.encode

    def encoded(row: Row) -> bytes:
        values = dict(zip(names, values_of(row), strict=True))
        for name in floats:
            if values[name] is not None:
                values[name] = float(values[name])
        for name in flags:
            values[name] = _FLAGS.get(values[name], values[name])
        for name, absent in later:
            if values[name] == absent:
                del values[name]
        return encode(values)

    return encoded

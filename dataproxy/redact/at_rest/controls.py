"""Positive controls: values planted where the search will look, in copies of the real files, that it must find.

Into every text and blob column of every table goes a control, coded as the column's own values are (plain, compressed, token ids);
into a copy of one file of each kind, and into a write-ahead log, goes one control for each form.
"""

import base64
import secrets
import shutil
import sqlite3
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

import numpy as np
import zstandard

from dataproxy.redact.at_rest.places import WEIGHTS, copy_database, quoted, tables
from dataproxy.redact.tokens import TokenBytes
from dataproxy.store.compression import compress, compress_array, decompress

_ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
_LARGEST_COPY = 64 << 20

CONTROL_TABLE = "planted_control"
"""A table made in the copy of a database, with a control in each form; its rows lie in the copy's write-ahead log."""

Coding: TypeAlias = tuple[str, Callable[[str], bytes]]


@dataclass(slots=True)
class Controls:
    """Makes control values and remembers the place each was planted in."""

    tokens: TokenBytes | None
    places: dict[str, str] = field(default_factory=dict)

    def new(self, place: str) -> str:
        """A value that occurs nowhere, noted as planted at ``place``."""
        value = f"control-{secrets.token_hex(8)}@example.com"
        self.places[value] = place
        return value

    def ids(self, text: str) -> bytes:
        """int32 ids that decode to ``text``, longest tokens first: not as the tokenizer would, which does not matter here."""
        known = {} if self.tokens is None else self.tokens.ids_by_bytes
        data, ids = text.encode(), []
        while data:
            size = next(size for size in range(min(16, len(data)), 0, -1) if data[:size] in known)
            ids.append(known[data[:size]])
            data = data[size:]
        return np.array(ids, "<i4").tobytes()


def plant_file(source: Path | None, copy: Path, kind: str, controls: Controls) -> None:
    """Copy ``source`` (or begin an empty file) and append a control in each form."""
    copy.parent.mkdir(parents=True, exist_ok=True)
    if source is not None and source.stat().st_size <= _LARGEST_COPY:
        shutil.copyfile(source, copy)
    with copy.open("ab") as file:
        for name, code in _plain_codings() if copy.suffix in WEIGHTS else _codings(controls):
            file.write(b"\n" + code(controls.new(f"{kind} {name}")) + b"\n")


def plant_database(source: Path, copy: Path, place: str, controls: Controls) -> sqlite3.Connection:
    """Copy the database and plant a control in every column; the open connection keeps the copy's write-ahead log alive."""
    copy_database(source, copy)
    database = sqlite3.connect(copy, isolation_level=None)
    for pragma in ("journal_mode = WAL", "wal_autocheckpoint = 0", "foreign_keys = OFF", "ignore_check_constraints = ON"):
        database.execute(f"PRAGMA {pragma}").fetchall()
    for (trigger,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
        database.execute(f"DROP TRIGGER {quoted(trigger)}")
    for table, columns in tables(database).items():
        for column in columns:
            _plant_column(database, place, table, column, controls)
    database.execute(f"CREATE TABLE {CONTROL_TABLE} (name TEXT, value BLOB)")
    for name, code in _codings(controls):
        row = name, code(controls.new(f"{place}:{CONTROL_TABLE} {name}"))
        database.execute(f"INSERT INTO {CONTROL_TABLE} VALUES (?, ?)", row)
    return database


def _plant_column(database: sqlite3.Connection, place: str, table: str, column: str, controls: Controls) -> None:
    """Overwrite one value of the column by a control; a column without text or bytes in it has nothing to be found in."""
    if table.startswith("sqlite_"):
        return
    name, where = quoted(column), f"typeof({quoted(column)}) IN ('text', 'blob') AND length({quoted(column)}) > 0"
    row = database.execute(f"SELECT {name} FROM {quoted(table)} WHERE {where} LIMIT 1").fetchone()
    if row is None:
        return
    control = controls.new(f"{place}:{table}.{column}")
    database.execute(f"UPDATE {quoted(table)} SET {name} = ? WHERE {name} IS ?", (_alike(row[0], control, controls), row[0]))


def _alike(value: str | bytes, control: str, controls: Controls) -> str | bytes:
    """``control`` coded as ``value`` is."""
    if isinstance(value, str):
        return control
    if value.startswith(_ZSTD_MAGIC):
        is_ids = _is_ids(decompress(value), controls.tokens)
        return compress_array(controls.ids(control)) if is_ids else compress(control.encode())
    return controls.ids(control) if _is_ids(value, controls.tokens) else control.encode()


def _is_ids(data: bytes, tokens: TokenBytes | None) -> bool:
    if tokens is None or not data or len(data) % 4:
        return False
    array = np.frombuffer(data, "<i4")
    return bool((array >= 0).all() and (array < len(tokens)).all() and array.any())


def _plain_codings() -> Iterator[Coding]:
    yield "utf-8", str.encode
    yield "utf-16", lambda value: value.encode("utf-16-le")
    yield "base64", lambda value: base64.b64encode(b"to: " + value.encode() + b"\n")
    yield "hex", lambda value: value.encode().hex().encode()
    yield "percent", lambda value: value.replace("@", "%40").encode()
    yield "json", lambda value: b'{"to": "' + "".join(f"\\u{ord(c):04x}" for c in value).encode() + b'"}'


def _codings(controls: Controls) -> Iterator[Coding]:
    yield from _plain_codings()
    yield "zlib", lambda value: zlib.compress(b"to: " + value.encode())
    yield "zstd", lambda value: zstandard.compress(b"to: " + value.encode())
    yield "zstd with our dictionary", lambda value: compress(b"order ticket please write to the address: " + value.encode())
    if controls.tokens is not None:
        yield "token ids", controls.ids
        yield "token ids, zstd", lambda value: zstandard.compress(controls.ids(value))
        yield "token ids, base64", lambda value: base64.b64encode(controls.ids(value))


def wal_of(copy: Path) -> Path:
    """The write-ahead log beside a database."""
    return copy.with_name(copy.name + "-wal")

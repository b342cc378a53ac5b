"""Where data lies: every file of a directory as it is, and every column of every table of every SQLite database in it."""

import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from dataproxy.redact.at_rest.readings import packed, readings
from dataproxy.redact.tokens import TokenBytes

_SQLITE_MAGIC = b"SQLite format 3\0"
WEIGHTS = frozenset((".safetensors", ".pt", ".distcp", ".bin"))
_PIECE = 64 << 20
_SHARED = 1 << 20
_BATCH_ROWS = 1000


@dataclass(slots=True, frozen=True)
class Reading:
    """Bytes and where they are from: a file or ``file:table.column``, and the way they were read (``raw``, ``zstd/tokens``, …)."""

    place: str
    how: str
    data: bytes


def files(directory: Path) -> list[Path]:
    """Every regular file below ``directory``."""
    return sorted(path for path in directory.rglob("*") if path.is_file() and not path.is_symlink())


def is_sqlite(path: Path) -> bool:
    """Whether the file is a SQLite database."""
    with path.open("rb") as file:
        return file.read(len(_SQLITE_MAGIC)) == _SQLITE_MAGIC


def file_readings(path: Path, place: str, tokens: TokenBytes | None) -> Iterator[Reading]:
    """The file's bytes and what can be read inside them; weights are numbers and are read as they are, nothing more.

    Large files are read in pieces that overlap by 1 MiB.
    """
    with path.open("rb") as file:
        at = 0
        while piece := file.read(_PIECE + _SHARED):
            if path.suffix in WEIGHTS:
                yield Reading(place, "raw", piece)
            else:
                yield from (Reading(place, how, data) for how, data in readings(piece, tokens))
            at += _PIECE
            file.seek(at)


def database_readings(path: Path, place: str, tokens: TokenBytes | None) -> Iterator[Reading]:
    """Every value of every column, read from a consistent copy, so that a database in use can be searched."""
    with tempfile.TemporaryDirectory() as directory:
        copy = Path(directory) / "copy.db"
        copy_database(path, copy)
        with closing(sqlite3.connect(copy)) as database:
            database.text_factory = bytes
            for table, columns in tables(database).items():
                for column in columns:
                    where = f"{place}:{table}.{column}"
                    for batch in _batches(database, table, column):
                        yield from (Reading(where, how, data) for how, data in readings(batch, tokens))


def _batches(database: sqlite3.Connection, table: str, column: str) -> Iterator[bytes]:
    """The values of a column, many at a time."""
    cursor = database.execute(f"SELECT {quoted(column)} FROM {quoted(table)}")
    while rows := cursor.fetchmany(_BATCH_ROWS):
        yield packed(value if isinstance(value, bytes) else str(value).encode() for (value,) in rows)


def copy_database(path: Path, copy: Path) -> None:
    """A copy of the database with everything committed so far."""
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as source, closing(sqlite3.connect(copy)) as target:
        source.backup(target)


def tables(database: sqlite3.Connection) -> dict[str, list[str]]:
    """Table → its columns that hold data of their own; virtual tables are read by their shadow tables."""
    listed = database.execute("SELECT name, sql FROM sqlite_master WHERE type = 'table'").fetchall()
    names = [_text(name) for name, sql in listed if not _text(sql or "").upper().startswith("CREATE VIRTUAL")]
    return {name: _columns(database, name) for name in names}


def quoted(name: str) -> str:
    """``name`` as an SQL identifier."""
    return '"' + name.replace('"', '""') + '"'


def _columns(database: sqlite3.Connection, table: str) -> list[str]:
    rows = database.execute(f"PRAGMA table_xinfo({quoted(table)})").fetchall()
    return [_text(row[1]) for row in rows if row[6] == 0]


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value

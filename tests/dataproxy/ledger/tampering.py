"""Ways to tamper with a store behind its own back: a raw connection, triggers and foreign keys off, files rewritten.

Each takes a copy of a store and a source of chance, does one thing, and says what it did; the audit must name it.
"""

import base64
import json
import random
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

from dataproxy.ledger.merkle import Frontier
from dataproxy.ledger.rows import PLAIN

HANGING = ("event_span", "eligibility", "token_segment")
"""Tables whose rows hang on an event, and are proven by its leaf."""
ROWS = (
    "event",
    "content",
    *HANGING,
    "content_span",
    "log_leaf",
    "log_salt",
    "checkpoint",
    "log_head",
    "erasure",
    "tombstone",
)
TABLES = (*ROWS, *PLAIN)
"""Every table that the log answers for."""

_BLOBS = (("token_segment", "output_ids"), ("token_segment", "prompt_ids"), ("token_segment", "logprobs"), ("content", "data"))

_ORDERS = (
    *(("event", "position"), ("event", "event_id"), ("log_leaf", "leaf_index"), ("reward", "reward_id")),
    *(("consent", "consent_id"), ("quarantine", "event_id"), ("log_salt", "leaf_index")),
)


class Copy:
    """A copied store with the key that it is audited by, and another of it at an earlier moment, to put parts of it back."""

    def __init__(self, database: Path, checkpoints: Path, earlier: Path, public: bytes) -> None:
        self.database = database
        self.checkpoints = checkpoints
        self.earlier = earlier
        self.public = public

    def open(self) -> sqlite3.Connection:
        """A raw connection that nothing of ours guards."""
        raw = sqlite3.connect(self.database, isolation_level=None)
        raw.execute("PRAGMA foreign_keys = OFF")
        for (name,) in raw.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
            raw.execute(f'DROP TRIGGER "{name}"')
        return raw


def change(copy: Copy, chance: random.Random) -> str:
    """Another value in one column of one row."""
    with closing(copy.open()) as raw:
        table, where, row = _row(raw, chance, TABLES)
        column = chance.choice(list(row))
        value = _other(row[column], chance)
        raw.execute(f'UPDATE OR REPLACE "{table}" SET "{column}" = ? WHERE {where}', (value,))
        return f"{table}.{column} of {where} from {row[column]!r} to {value!r}"


def delete(copy: Copy, chance: random.Random) -> str:
    """One row less."""
    with closing(copy.open()) as raw:
        table, where, _ = _row(raw, chance, TABLES)
        raw.execute(f'DELETE FROM "{table}" WHERE {where}')
        return f"{table}: {where} deleted"


def insert(copy: Copy, chance: random.Random) -> str:
    """One row more: a row of the table under another key, or also under a tenant that nobody has heard of."""
    with closing(copy.open()) as raw:
        table, _, row = _row(raw, chance, TABLES)
        stranger = ["tenant"] if chance.random() < 0.3 or table == "log_head" else []
        for column in {*_key(raw, table)[1:], *_unique(raw, table), *stranger}:
            row[column] = _new(row[column])
        row = {column: value for column, value in row.items() if column != "idempotency_key"}
        names = ", ".join(f'"{column}"' for column in row)
        raw.execute(f'INSERT INTO "{table}" ({names}) VALUES ({", ".join("?" * len(row))})', list(row.values()))
        return f"{table}: {[row[column] for column in _key(raw, table)]} inserted"


def reorder(copy: Copy, chance: random.Random) -> str:
    """Two rows of one tenant and table change places: each takes the other's key."""
    with closing(copy.open()) as raw:
        pairs = []
        for table, column in _ORDERS:
            rows = rows_of(raw, table)
            pairs += [(table, column, a, b) for a in rows for b in rows if a["tenant"] == b["tenant"] and a[column] < b[column]]
        table, column, first, second = chance.choice(pairs)
        a, b = _where(raw, table, first), _where(raw, table, second)
        parked: Any = -1 if isinstance(first[column], int) else "parked"
        raw.execute(f'UPDATE "{table}" SET "{column}" = ? WHERE {a}', (parked,))
        raw.execute(f'UPDATE "{table}" SET "{column}" = ? WHERE {b}', (first[column],))
        raw.execute(f'UPDATE "{table}" SET "{column}" = ? WHERE "{column}" = ?', (second[column], parked))
        return f"{table}: {a} and {b} swapped in {column}"


def truncate(copy: Copy, chance: random.Random) -> str:
    """The last rows of one table are gone."""
    with closing(copy.open()) as raw:
        table = chance.choice([name for name in TABLES if _count(raw, name)])
        num = chance.randint(1, _count(raw, table))
        key = ", ".join(f'"{column}"' for column in _key(raw, table))
        for row in sorted(rows_of(raw, table), key=str)[-num:]:
            raw.execute(f'DELETE FROM "{table}" WHERE {_where(raw, table, row)}')
        return f"{table}: the last {num} rows by {key} deleted"


def swap_blobs(copy: Copy, chance: random.Random) -> str:
    """Tokens, logprobs or texts of two rows change places; every row is still well formed."""
    with closing(copy.open()) as raw:
        pairs = []
        for table, column in _BLOBS:
            rows = rows_of(raw, table)
            pairs += [(table, column, a, b) for a in rows for b in rows if a[column] < b[column]]
        table, column, a, b = chance.choice(pairs)
        raw.execute(f'UPDATE "{table}" SET "{column}" = ? WHERE {_where(raw, table, a)}', (b[column],))
        raw.execute(f'UPDATE "{table}" SET "{column}" = ? WHERE {_where(raw, table, b)}', (a[column],))
        return f"{table}.{column}: two swapped"


def rewrite_file(copy: Copy, chance: random.Random) -> str:
    """The checkpoints file: a line less, changed, doubled or garbled, its end cut off, or the whole of it gone."""
    lines = copy.checkpoints.read_text().splitlines()
    at = chance.randrange(len(lines))
    how = chance.choice(("drop", "change", "double", "cut", "gone", "resign", "garble"))
    if how == "drop":
        lines.pop(at)
    elif how == "double":
        lines.insert(at, lines[at])
    elif how == "cut":
        lines = lines[:at]
    elif how == "gone":
        lines = []
    elif how == "garble":
        lines[at] = lines[at][: len(lines[at]) // 2]
    else:
        line = json.loads(lines[at])
        if how == "change":
            line["size"] += 1
        else:
            line["note"] = _other_signature(line["note"])
        lines[at] = json.dumps(line)
    copy.checkpoints.write_text("".join(line + "\n" for line in lines))
    return f"checkpoints file: {how} line {at}"


def put_back(copy: Copy, chance: random.Random) -> str:
    """The whole database as it was earlier, consistent in itself: only what lies outside it can tell."""
    copy.database.with_name("headrace.db-wal").unlink(missing_ok=True)
    shutil.copyfile(copy.earlier, copy.database)
    return "the database put back to an earlier state"


def other_key(copy: Copy, chance: random.Random) -> str:
    """The public key, as the auditor has it, is another one."""
    at = chance.randrange(len(copy.public))
    copy.public = copy.public[:at] + bytes([copy.public[at] ^ 1]) + copy.public[at + 1 :]
    return f"byte {at} of the public key changed"


def drop_tail(copy: Copy, chance: random.Random) -> str:
    """The end of one log with all that its leaves name: leaves, salts, rows, checkpoints, and a head that fits again."""
    with closing(copy.open()) as raw:
        tenant = chance.choice([row["tenant"] for row in rows_of(raw, "log_head")])
        leaves = [row for row in rows_of(raw, "log_leaf") if row["tenant"] == tenant]
        keep = chance.randrange(len(leaves))
        for leaf in leaves[keep:]:
            raw.execute("DELETE FROM log_leaf WHERE tenant = ? AND leaf_index = ?", (tenant, leaf["leaf_index"]))
            raw.execute("DELETE FROM log_salt WHERE tenant = ? AND leaf_index = ?", (tenant, leaf["leaf_index"]))
            _drop_row(raw, tenant, leaf["kind"], leaf["row_key"])
        raw.execute("DELETE FROM checkpoint WHERE tenant = ? AND size > ?", (tenant, keep))
        _fit_head(raw, tenant, [leaf["leaf_hash"] for leaf in leaves[:keep]])
        return f"the log of {tenant} cut to {keep} of {len(leaves)} leaves"


TAMPERINGS: tuple[Callable[[Copy, random.Random], str], ...] = (
    *(change, change, delete, insert, reorder, truncate, swap_blobs, rewrite_file, drop_tail, put_back, other_key),
)


def _drop_row(raw: sqlite3.Connection, tenant: str, kind: str, key: str) -> None:
    if kind == "event":
        for table in ("event_span", "eligibility", "token_segment", "event"):
            raw.execute(f"DELETE FROM {table} WHERE tenant = ? AND event_id = ?", (tenant, key))
        mine = "SELECT digest FROM content WHERE tenant = ? AND owner = ?"
        raw.execute(f"DELETE FROM content_span WHERE tenant = ? AND digest IN ({mine})", (tenant, tenant, key))
        raw.execute("DELETE FROM content WHERE tenant = ? AND owner = ?", (tenant, key))
    elif kind == "erasure":
        raw.execute("DELETE FROM erasure WHERE tenant = ? AND erasure_id = ?", (tenant, key))
        raw.execute("DELETE FROM tombstone WHERE tenant = ? AND erasure_id = ?", (tenant, key))
    elif kind == "content":
        raw.execute("DELETE FROM content WHERE tenant = ? AND hex(digest) = ?", (tenant, key.partition("/")[0].upper()))
    else:
        columns = PLAIN[kind].key
        where = " AND ".join(f"{column} = ?" for column in columns)
        raw.execute(f"DELETE FROM {kind} WHERE tenant = ? AND {where}", (tenant, *key.rsplit("/", len(columns) - 1)))


def _fit_head(raw: sqlite3.Connection, tenant: str, hashes: list[bytes]) -> None:
    frontier = Frontier()
    for hashed in hashes:
        frontier.push(hashed)
    raw.execute("UPDATE log_head SET size = ?, frontier = ? WHERE tenant = ?", (frontier.size, frontier.encode(), tenant))


def _other_signature(note: str) -> str:
    head, _, signature = note.rstrip("\n").rpartition(" ")
    data = bytearray(base64.b64decode(signature))
    data[-1] ^= 1
    return f"{head} {base64.b64encode(data).decode()}\n"


def _other(value: Any, chance: random.Random) -> Any:
    """A value of the same type that is another."""
    if isinstance(value, bytes):
        at = chance.randrange(len(value)) if value else 0
        return value[:at] + bytes([value[at] ^ (1 << chance.randrange(8))]) + value[at + 1 :] if value else b"x"
    if isinstance(value, int):
        return value + chance.choice((1, -1, 7))
    if isinstance(value, float):
        return value + 0.25
    if value is None:
        return "x"
    return value[:-1] + chr(ord(value[-1]) ^ 1) if value and chance.random() < 0.5 else value + "x"


def _new(value: Any) -> Any:
    """A key that no row has."""
    return value + 1_000_000 if isinstance(value, int) else value[::-1] if isinstance(value, bytes) else f"{value}-new"


def _row(raw: sqlite3.Connection, chance: random.Random, tables: tuple[str, ...]) -> tuple[str, str, dict[str, Any]]:
    table = chance.choice([name for name in tables if _count(raw, name)])
    row = chance.choice(rows_of(raw, table))
    return table, _where(raw, table, row), row


def _count(raw: sqlite3.Connection, table: str) -> int:
    return int(raw.execute(f'SELECT count(*) FROM "{table}"').fetchone()[0])


def rows_of(raw: sqlite3.Connection, table: str) -> list[dict[str, Any]]:
    """All rows, in the order of their keys."""
    key = ", ".join(f'"{column}"' for column in _key(raw, table))
    cursor = raw.execute(f'SELECT * FROM "{table}" ORDER BY {key}')
    names = [column[0] for column in cursor.description]
    return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]


def _key(raw: sqlite3.Connection, table: str) -> list[str]:
    columns = [row for row in raw.execute(f'PRAGMA table_info("{table}")').fetchall() if row[5]]
    return [row[1] for row in sorted(columns, key=lambda row: row[5])]


def _unique(raw: sqlite3.Connection, table: str) -> list[str]:
    """The last column of each other key."""
    others = [row[1] for row in raw.execute(f'PRAGMA index_list("{table}")').fetchall() if row[2] and row[3] != "pk"]
    return [raw.execute(f'PRAGMA index_info("{name}")').fetchall()[-1][2] for name in others]


def _where(raw: sqlite3.Connection, table: str, row: dict[str, Any]) -> str:
    return " AND ".join(f'"{column}" = {_sql(row[column])}' for column in _key(raw, table))


def _sql(value: Any) -> str:
    if isinstance(value, bytes):
        return f"x'{value.hex()}'"
    return str(value) if isinstance(value, int) else "'" + str(value).replace("'", "''") + "'"

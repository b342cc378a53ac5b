"""All that is particular to a database product: how to open it, guard append-only tables, and insert what may be there already.

SQLite today. Another product is another branch here and nowhere else.
"""

from collections.abc import Mapping, Sequence
from functools import cache
from operator import itemgetter
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, Table, create_engine, event, text
from sqlalchemy.dialects.sqlite import insert

_PRAGMAS = (
    "journal_mode=WAL",
    "synchronous=FULL",
    "secure_delete=ON",
    "foreign_keys=ON",
    "temp_store=MEMORY",
    "busy_timeout=30000",
)
_WRITER = "headrace_writer"


def open_engine(path: Path) -> Engine:
    """An engine on the SQLite file ``path``. Parameters never reach a log or a traceback."""
    engine = create_engine(f"sqlite:///{path}", hide_parameters=True)
    event.listen(engine, "connect", _prepare)
    event.listen(engine, "begin", _begin)
    return engine


def as_writer(engine: Engine) -> Engine:
    """The same engine whose transactions take the write lock when they begin, so that none fails half-way for it."""
    return engine.execution_options(**{_WRITER: True})


def _prepare(connection: Any, _: Any) -> None:
    connection.isolation_level = None  # transactions are begun by _begin alone
    cursor = connection.cursor()
    for pragma in _PRAGMAS:
        cursor.execute(f"PRAGMA {pragma}")
    cursor.close()


def _begin(connection: Connection) -> None:
    connection.exec_driver_sql("BEGIN IMMEDIATE" if connection.get_execution_options().get(_WRITER) else "BEGIN")


def guard_append_only(connection: Connection, tables: Sequence[str]) -> None:
    """Refuse UPDATE and DELETE on ``tables``, whoever asks."""
    for table in tables:
        for action in ("UPDATE", "DELETE"):
            connection.execute(
                text(
                    f"CREATE TRIGGER {table}_no_{action.lower()} BEFORE {action} ON {table} "
                    f"BEGIN SELECT RAISE(ABORT, '{table} is append-only'); END"
                )
            )


def allow_tombstones(
    connection: Connection, table: str, kept: Sequence[str], key: str, blanks: Mapping[str, bytes | str | None]
) -> None:
    """Let a row of ``table``, append-only so far, be changed once it has a tombstone: ``blanks`` to these values, ``kept`` not."""
    same = [f'NEW."{column}" IS OLD."{column}"' for column in kept]
    blank = [f'NEW."{column}" IS {_literal(value)}' for column, value in blanks.items()]
    grave = f"EXISTS (SELECT 1 FROM tombstone WHERE tenant = OLD.tenant AND kind = '{table}' AND row_key = OLD.{key})"
    connection.execute(text(f"DROP TRIGGER {table}_no_update"))
    connection.execute(
        text(
            f"CREATE TRIGGER {table}_no_update BEFORE UPDATE ON {table} WHEN NOT ({' AND '.join([*same, *blank, grave])}) "
            f"BEGIN SELECT RAISE(ABORT, '{table} is append-only'); END"
        )
    )


def _literal(value: bytes | str | None) -> str:
    return "NULL" if value is None else "x''" if value == b"" else "''"


def insert_new(connection: Connection, table: Table, rows: Sequence[dict[str, Any]]) -> None:
    """Insert ``rows``, all of the same columns; those whose key is there already change nothing.

    The drain lives on this: the text is compiled once, and rows go to the driver as they are.
    """
    if rows:
        names = tuple(rows[0])
        connection.exec_driver_sql(_insertion(table, names, "ON CONFLICT DO NOTHING"), [*map(itemgetter(*names), rows)])


def insert_all(connection: Connection, table: Table, rows: Sequence[dict[str, Any]]) -> None:
    """Insert ``rows``, all of the same columns, as fast as ``insert_new``; a key that is there already is an error."""
    if rows:
        names = tuple(rows[0])
        connection.exec_driver_sql(_insertion(table, names, ""), [*map(itemgetter(*names), rows)])


@cache
def _insertion(table: Table, names: tuple[str, ...], conflict: str) -> str:
    quoted = ", ".join(f'"{name}"' for name in names)
    return f"INSERT INTO {table.name} ({quoted}) VALUES ({', '.join('?' * len(names))}) {conflict}"


def add_to(connection: Connection, table: Table, row: dict[str, Any], counter: str) -> None:
    """Insert ``row``, or add its ``counter`` to the row of that key."""
    statement = insert(table).values(row)
    keys = [column.name for column in table.primary_key]
    total = {counter: table.c[counter] + statement.excluded[counter]}
    connection.execute(statement.on_conflict_do_update(index_elements=keys, set_=total))


def upsert(connection: Connection, table: Table, row: dict[str, Any]) -> None:
    """Insert ``row``, or give the row of that key its other columns."""
    keys = [column.name for column in table.primary_key]
    changes = {column: value for column, value in row.items() if column not in keys}
    connection.execute(insert(table).values(row).on_conflict_do_update(index_elements=keys, set_=changes))

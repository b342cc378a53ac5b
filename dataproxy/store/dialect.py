"""All that is particular to a database product in what is asked of it. How each is opened: ``sqlite`` and ``postgres`` beside this.

Another product is another branch in these three and nowhere else.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cache
from operator import itemgetter
from typing import Any

from sqlalchemy import Connection, Table, text
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.types import String

from dataproxy.store.copying import LEAST_ROWS, copy_rows

_LIST_SIZES = (1, 8, 64, 256, 1024)

Insert = postgresql.Insert | sqlite.Insert


@compiles(String, "postgresql")
def _unbounded(type_: String, compiler: Any, **options: Any) -> str:
    """SQLite takes a longer word than a column says, and a batch must not fail for one on PostgreSQL either."""
    return "VARCHAR"


def is_postgres(connection: Connection) -> bool:
    """Whether it is PostgreSQL that answers."""
    return connection.dialect.name == "postgresql"


def guard_append_only(connection: Connection, tables: Sequence[str]) -> None:
    """Refuse UPDATE and DELETE on ``tables``, whoever asks. On PostgreSQL the rules that follow every migration do that."""
    if is_postgres(connection):
        return
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
    """Let a row of ``table``, append-only so far, be changed once it has a tombstone: ``blanks`` to these values, ``kept`` not.

    On PostgreSQL the rules that follow every migration do that (``schema.BLANKED``).
    """
    if is_postgres(connection):
        return
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


def drop_guards(connection: Connection, tables: Sequence[str]) -> None:
    """Take back what the two above did, in a migration on its way down."""
    if is_postgres(connection):
        return
    for table in tables:
        for action in ("update", "delete"):
            connection.execute(text(f"DROP TRIGGER {table}_no_{action}"))


def _literal(value: bytes | str | None) -> str:
    return "NULL" if value is None else "x''" if value == b"" else "''"


def insert_new(connection: Connection, table: Table, rows: Sequence[dict[str, Any]]) -> None:
    """Insert ``rows``, all of the same columns; those whose key is there already change nothing.

    The drain lives on this: the text is compiled once, and rows go to the driver as they are.
    """
    _insert_many(connection, table, rows, "ON CONFLICT DO NOTHING")


def insert_all(connection: Connection, table: Table, rows: Sequence[dict[str, Any]]) -> None:
    """Insert ``rows``, all of the same columns, as fast as ``insert_new``; a key that is there already is an error."""
    _insert_many(connection, table, rows, "")


def _insert_many(connection: Connection, table: Table, rows: Sequence[dict[str, Any]], conflict: str) -> None:
    if not rows:
        return
    names = tuple(rows[0])
    values = [*map(itemgetter(*names), rows)]
    if is_postgres(connection) and len(rows) >= LEAST_ROWS:
        copy_rows(connection, table, names, values, conflict)
    else:
        mark = "%s" if is_postgres(connection) else "?"
        connection.exec_driver_sql(_insertion(table, names, conflict, mark), values)


@cache
def _insertion(table: Table, names: tuple[str, ...], conflict: str, mark: str) -> str:
    quoted = ", ".join(f'"{name}"' for name in names)
    return f"INSERT INTO {table.name} ({quoted}) VALUES ({', '.join([mark] * len(names))}) {conflict}"


def find_all(
    connection: Connection, table: Table, columns: Sequence[str], among: str, values: Collection[Any], **equal: Any
) -> Iterator[tuple[Any, ...]]:
    """``columns`` of the rows of ``table`` whose column ``among`` is one of ``values`` and whose others are ``equal``; no order.

    As ``insert_new``, for look-ups of many keys at a time: values come as the driver gives them, a boolean as 0 or 1.
    """
    listed = list(values)
    for start in range(0, len(listed), _LIST_SIZES[-1]):
        chunk = listed[start : start + _LIST_SIZES[-1]]
        if is_postgres(connection):
            statement, keys = _look_up(table, tuple(columns), among, tuple(equal), "%s", 0), [chunk]
        else:
            size = next(size for size in _LIST_SIZES if size >= len(chunk))  # a few lengths: a few statements to prepare
            keys = chunk + chunk[-1:] * (size - len(chunk))
            statement = _look_up(table, tuple(columns), among, tuple(equal), "?", size)
        yield from map(tuple, connection.exec_driver_sql(statement, (*equal.values(), *keys)))


@cache
def _look_up(table: Table, columns: tuple[str, ...], among: str, equal: tuple[str, ...], mark: str, size: int) -> str:
    wanted = ", ".join(f'"{name}"' for name in columns)
    same = "".join(f'"{name}" = {mark} AND ' for name in equal)
    keys = f"IN ({', '.join([mark] * size)})" if size else f"= ANY({mark})"
    return f'SELECT {wanted} FROM {table.name} WHERE {same}"{among}" {keys}'


def _insert(connection: Connection, table: Table) -> Insert:
    return postgresql.insert(table) if is_postgres(connection) else sqlite.insert(table)


def add_to(connection: Connection, table: Table, row: dict[str, Any], counter: str) -> None:
    """Insert ``row``, or add its ``counter`` to the row of that key."""
    statement = _insert(connection, table).values(row)
    keys = [column.name for column in table.primary_key]
    total = {counter: table.c[counter] + statement.excluded[counter]}
    connection.execute(statement.on_conflict_do_update(index_elements=keys, set_=total))


def upsert(connection: Connection, table: Table, row: dict[str, Any]) -> None:
    """Insert ``row``, or give the row of that key its other columns."""
    keys = [column.name for column in table.primary_key]
    changes = {column: value for column, value in row.items() if column not in keys}
    statement = _insert(connection, table).values(row)
    connection.execute(statement.on_conflict_do_update(index_elements=keys, set_=changes))


def next_event_position(connection: Connection, table: Table) -> int:
    """One more than the greatest position of all tenants' rows in ``table`` (event); the caller holds the write lock."""
    if is_postgres(connection):
        return int(connection.execute(text("SELECT headrace_next_position()")).scalar_one())
    return int(connection.execute(text(f"SELECT coalesce(max(position), 0) + 1 FROM {table.name}")).scalar_one())

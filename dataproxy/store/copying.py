"""Many rows into PostgreSQL at once: COPY into a temporary table, then INSERT … SELECT, for COPY itself is refused under row-level
security. It pays from about a hundred rows on (decision 0015 has the figures).
"""

from collections.abc import Sequence
from typing import Any

import psycopg
from sqlalchemy import Connection, Table
from sqlalchemy.exc import DBAPIError

LEAST_ROWS = 96
"""Fewer are quicker one by one."""


def copy_rows(connection: Connection, table: Table, names: Sequence[str], rows: Sequence[tuple[Any, ...]], conflict: str) -> None:
    """Insert ``rows``, whose values are those of the columns ``names``; ``conflict`` is the end of the statement.

    Raises:
        DBAPIError: as any statement would.
    """
    columns, temporary = ", ".join(f'"{name}"' for name in names), f"copy_{table.name}"
    connection.exec_driver_sql(
        f"CREATE TEMPORARY TABLE IF NOT EXISTS {temporary} (LIKE {table.name} INCLUDING DEFAULTS) ON COMMIT DELETE ROWS"
    )
    _send(connection, f"COPY {temporary} ({columns}) FROM STDIN", rows)
    connection.exec_driver_sql(f"INSERT INTO {table.name} ({columns}) SELECT {columns} FROM {temporary} {conflict}")
    connection.exec_driver_sql(f"DELETE FROM {temporary}")


def _send(connection: Connection, statement: str, rows: Sequence[tuple[Any, ...]]) -> None:
    """The driver's own errors become those that callers know."""
    raw: psycopg.Connection = connection.connection.driver_connection  # type: ignore[assignment]  # of this dialect
    try:
        with raw.cursor() as cursor, cursor.copy(statement) as copy:
            for row in rows:
                copy.write_row(row)
    except psycopg.Error as error:
        raise DBAPIError.instance(statement, None, error, psycopg.Error, hide_parameters=True) from error

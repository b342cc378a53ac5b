"""The few kinds of column that every table is made of."""

from typing import Any

from sqlalchemy import BigInteger, Column, Float, Integer, String, Text


def tenant_key() -> Column[Any]:
    """The tenant: first in every primary key."""
    return Column("tenant", String(128), primary_key=True)


def name(column: str, primary: bool = False) -> Column[Any]:
    """An identifier or a short word; never null, "" where there is none."""
    return Column(column, String(128), primary_key=primary, nullable=False)


def time_us(column: str) -> Column[Any]:
    """A moment, UTC µs."""
    return Column(column, BigInteger, nullable=False)


def span_columns() -> list[Column[Any]]:
    """A redacted value's place (see ``atdp.events.Span``), without the value."""
    return [
        name("kind"),
        name("detector"),
        Column("score", Float, nullable=False),
        Column("path", Text, nullable=False),
        Column("start", Integer, nullable=False),
        Column("end", Integer, nullable=False),
        name("surrogate"),
    ]

"""How far the journal is drained: committed together with what was drained from it."""

from collections.abc import Iterable, Mapping

from sqlalchemy import Connection, delete, select

from dataproxy.store.dialect import upsert
from dataproxy.store.schema import journal_offset


def read_offsets(connection: Connection) -> dict[str, int]:
    """Segment → byte from which on to read."""
    return {row.segment: row.offset for row in connection.execute(select(journal_offset))}


def write_offsets(connection: Connection, offsets: Mapping[str, int]) -> None:
    """Remember ``offsets``."""
    for segment, offset in offsets.items():
        upsert(connection, journal_offset, {"segment": segment, "offset": offset})


def forget_offsets(connection: Connection, segments: Iterable[str]) -> None:
    """The segments are gone."""
    for segment in segments:
        connection.execute(delete(journal_offset).where(journal_offset.c.segment == segment))

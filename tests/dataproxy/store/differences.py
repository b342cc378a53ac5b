"""What a database has that the schema does not, and the other way round."""

import re

from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import Connection, ForeignKeyConstraint

from dataproxy.store.schema import metadata

_PARTITION = re.compile(r"_(default|y\d{4}m\d{2})$")
_ONLY = {"ix_event_position": "postgresql", "uq_event_position": "sqlite"}


def differences(connection: Connection) -> list[object]:
    """Empty where they are equal. Partitions, and what PostgreSQL makes for them, belong to their tables."""

    def is_compared(item: object, name: str | None, kind: str, reflected: bool, other: object) -> bool:
        if isinstance(item, ForeignKeyConstraint):
            return not _PARTITION.search(item.elements[0].target_fullname.partition(".")[0])
        return not _PARTITION.search(name or "") and _ONLY.get(name or "", connection.dialect.name) == connection.dialect.name

    context = MigrationContext.configure(connection, opts={"include_object": is_compared})
    return list(compare_metadata(context, metadata))

"""Under which eyes: reads, quarantine, the log that commits to everything, erasure, holds, retention."""

from sqlalchemy import BigInteger, Column, Float, Index, LargeBinary, String, Table, Text, text

from dataproxy.store.columns import name, tenant_key, time_us
from dataproxy.store.schema.metadata import metadata

access_log = Table(
    "access_log",
    metadata,
    tenant_key(),
    name("event_id", primary=True),
    name("key_id"),
    name("role"),
    name("what"),
    name("target"),
    time_us("at_us"),
    Column("purpose", Text, nullable=False, server_default=""),
    Index("ix_access_log_event", "event_id"),
    Index("ix_access_log_reader", "key_id", "tenant", "event_id"),
    Index("ix_access_log_target", "target", "tenant", "event_id"),
)

quarantine = Table(
    "quarantine",
    metadata,
    tenant_key(),
    name("event_id", primary=True),
    name("reason"),
    Column("sealed", LargeBinary, nullable=False),
    time_us("created_us"),
    Index("ix_quarantine_event", "event_id"),
)

log_head = Table(
    "log_head",
    metadata,
    tenant_key(),
    Column("size", BigInteger, nullable=False),
    Column("frontier", LargeBinary, nullable=False),
    Column("base_position", BigInteger, nullable=False),
)
"""One row a tenant, locked by whoever appends. Events are committed to by their position less ``base_position``."""

log_leaf = Table(
    "log_leaf",
    metadata,
    tenant_key(),
    Column("leaf_index", BigInteger, primary_key=True),
    name("kind"),
    Column("row_key", String(300), nullable=False),
    name("chain"),
    Column("previous", LargeBinary(32), nullable=False),
    Column("commitment", LargeBinary(32), nullable=False),
    Column("leaf_hash", LargeBinary(32), nullable=False),
    Index("uq_log_leaf_row", "tenant", "kind", "row_key", unique=True),
    Index(
        "ix_log_leaf_chain", "tenant", "chain", "leaf_index", sqlite_where=text("chain <> ''"), postgresql_where=text("chain <> ''")
    ),
    sqlite_with_rowid=False,
)

log_salt = Table(
    "log_salt",
    metadata,
    tenant_key(),
    Column("leaf_index", BigInteger, primary_key=True),
    Column("salt", LargeBinary(16), nullable=False),
    sqlite_with_rowid=False,
)
"""Without its salt nobody can tell what a leaf committed to: erasure deletes the row."""

checkpoint = Table(
    "checkpoint",
    metadata,
    tenant_key(),
    Column("size", BigInteger, primary_key=True),
    Column("note", Text, nullable=False),
    time_us("cut_us"),
)

erasure = Table(
    "erasure",
    metadata,
    tenant_key(),
    name("erasure_id", primary=True),
    name("scope"),
    name("target"),
    Column("reason", Text, nullable=False),
    name("key_id"),
    time_us("erased_us"),
    Column("outcome", Text, nullable=False),
)

tombstone = Table(
    "tombstone",
    metadata,
    tenant_key(),
    name("kind", primary=True),
    Column("row_key", String(300), primary_key=True),
    Column("leaf_index", BigInteger, nullable=False),
    name("erasure_id"),
    Index("ix_tombstone_erasure", "tenant", "erasure_id", "leaf_index"),
)
"""Rows that were erased. The triggers of ``event`` and ``reward`` let exactly these be blanked."""

legal_hold = Table(
    "legal_hold",
    metadata,
    tenant_key(),
    name("hold_id", primary=True),
    name("action", primary=True),
    name("scope"),
    name("target"),
    Column("reason", Text, nullable=False),
    name("key_id"),
    time_us("created_us"),
)
"""``action`` is "add" or, in a second row, "release"."""

retention_policy = Table(
    "retention_policy",
    metadata,
    tenant_key(),
    name("policy_id", primary=True),
    name("agent"),
    name("class"),
    Column("days", Float),
    Column("reason", Text, nullable=False),
    name("key_id"),
    time_us("created_us"),
)
"""The latest row of the narrowest scope holds; ``days`` None: kept until erased."""

saved_view = Table(
    "saved_view",
    metadata,
    tenant_key(),
    name("view_id", primary=True),
    Column("title", Text, nullable=False),
    Column("query", Text, nullable=False),
    name("key_id"),
    time_us("created_us"),
)
"""``query`` is a ``TrajectoryQuery`` as JSON, its free text redacted."""

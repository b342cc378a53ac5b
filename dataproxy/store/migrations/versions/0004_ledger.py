"""The ledger, erasure, legal hold and retention; consent of one session; why somebody read."""

import sqlalchemy as sa
from alembic import op

from dataproxy.store.dialect import allow_tombstones, drop_guards, guard_append_only

revision = "0004"
down_revision = "0003"

NEW_TABLES = ("retention_policy", "legal_hold", "tombstone", "erasure", "checkpoint", "log_salt", "log_leaf", "log_head")
GUARDED = ("log_leaf", "checkpoint", "erasure", "tombstone", "legal_hold", "retention_policy")
EVENT_KEPT = (
    *("tenant", "event_id", "position", "kind", "agent", "session_id", "trajectory_id", "seq", "parent_id", "started_us"),
    *("ended_us", "boundary", "model", "status", "delivery", "finish_reason"),
)
REWARD_KEPT = (
    *("tenant", "reward_id", "target_kind", "target_id", "trajectory_id", "name", "value", "source", "idempotency_key"),
    *("supersedes", "key_id", "received_us"),
)


def upgrade() -> None:
    """New tables, three columns, and triggers that let a row with a tombstone be blanked and no other."""
    _log_tables()
    _governance_tables()
    op.add_column("consent", sa.Column("session_id", sa.String(length=128), nullable=False, server_default=""))
    op.add_column("access_log", sa.Column("purpose", sa.Text(), nullable=False, server_default=""))
    op.add_column("content", sa.Column("owner", sa.String(length=128), nullable=False, server_default=""))
    op.create_index("ix_content_owner", "content", ["tenant", "owner"])
    guard_append_only(op.get_bind(), GUARDED)
    allow_tombstones(op.get_bind(), "event", EVENT_KEPT, "event_id", {"subject": "", "request_digest": None, "body": b""})
    allow_tombstones(op.get_bind(), "reward", REWARD_KEPT, "reward_id", {"label": None, "correction": None, "explanation": None})


def downgrade() -> None:
    """Back to the schema without a ledger; what was proven can be proven no more."""
    drop_guards(op.get_bind(), ("event", "reward"))
    guard_append_only(op.get_bind(), ("event", "reward"))
    op.drop_index("ix_content_owner", "content")
    op.drop_column("content", "owner")
    op.drop_column("access_log", "purpose")
    op.drop_column("consent", "session_id")
    for table in NEW_TABLES:
        op.drop_table(table)


def _name(column: str) -> "sa.Column[str]":
    return sa.Column(column, sa.String(length=128), nullable=False)


def _long(column: str) -> "sa.Column[int]":
    return sa.Column(column, sa.BigInteger(), nullable=False)


def _key(table: str, *columns: str) -> sa.PrimaryKeyConstraint:
    return sa.PrimaryKeyConstraint(*columns, name=op.f(f"pk_{table}"))


def _log_tables() -> None:
    op.create_table(
        "log_head",
        _name("tenant"),
        _long("size"),
        sa.Column("frontier", sa.LargeBinary(), nullable=False),
        _long("base_position"),
        _key("log_head", "tenant"),
    )
    hashes = [sa.Column(column, sa.LargeBinary(length=32), nullable=False) for column in ("previous", "commitment", "leaf_hash")]
    op.create_table(
        "log_leaf",
        _name("tenant"),
        _long("leaf_index"),
        _name("kind"),
        sa.Column("row_key", sa.String(length=300), nullable=False),
        _name("chain"),
        *hashes,
        _key("log_leaf", "tenant", "leaf_index"),
        sqlite_with_rowid=False,
    )
    op.create_index("uq_log_leaf_row", "log_leaf", ["tenant", "kind", "row_key"], unique=True)
    chained = sa.text("chain <> ''")
    columns = ["tenant", "chain", "leaf_index"]
    op.create_index("ix_log_leaf_chain", "log_leaf", columns, sqlite_where=chained, postgresql_where=chained)
    op.create_table(
        "log_salt",
        *(_name("tenant"), _long("leaf_index"), sa.Column("salt", sa.LargeBinary(length=16), nullable=False)),
        _key("log_salt", "tenant", "leaf_index"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "checkpoint",
        *(_name("tenant"), _long("size"), sa.Column("note", sa.Text(), nullable=False), _long("cut_us")),
        _key("checkpoint", "tenant", "size"),
    )


def _governance_tables() -> None:
    op.create_table(
        "erasure",
        *(_name("tenant"), _name("erasure_id"), _name("scope"), _name("target"), sa.Column("reason", sa.Text(), nullable=False)),
        *(_name("key_id"), _long("erased_us"), sa.Column("outcome", sa.Text(), nullable=False)),
        _key("erasure", "tenant", "erasure_id"),
    )
    op.create_table(
        "tombstone",
        *(_name("tenant"), _name("kind"), sa.Column("row_key", sa.String(length=300), nullable=False), _long("leaf_index")),
        *(_name("erasure_id"), _key("tombstone", "tenant", "kind", "row_key")),
    )
    op.create_index("ix_tombstone_erasure", "tombstone", ["tenant", "erasure_id", "leaf_index"])
    op.create_table(
        "legal_hold",
        *(_name("tenant"), _name("hold_id"), _name("action"), _name("scope"), _name("target")),
        *(sa.Column("reason", sa.Text(), nullable=False), _name("key_id"), _long("created_us")),
        _key("legal_hold", "tenant", "hold_id", "action"),
    )
    op.create_table(
        "retention_policy",
        *(_name("tenant"), _name("policy_id"), _name("agent"), _name("class"), sa.Column("days", sa.Float(), nullable=True)),
        *(sa.Column("reason", sa.Text(), nullable=False), _name("key_id"), _long("created_us")),
        _key("retention_policy", "tenant", "policy_id"),
    )

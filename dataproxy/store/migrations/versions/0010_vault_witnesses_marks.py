"""Raw tokens under keys that can be destroyed, approvals of that, witnesses' signatures, and reviewers' marks."""

import sqlalchemy as sa
from alembic import op

from dataproxy.store.dialect import drop_guards, guard_append_only

revision = "0010"
down_revision = "0009"

_GUARDED = ("vault_approval", "cosignature", "review_mark")


def upgrade() -> None:
    """Nothing is in the vault, and nothing has trained from it."""
    op.create_table(
        "vault_approval",
        *(_name(column) for column in ("tenant", "approval_id", "action", "agent")),
        *(sa.Column("days", sa.Float(), nullable=False), _text("reason"), _name("key_id"), _long("created_us")),
        _key("vault_approval", "tenant", "approval_id", "action"),
    )
    op.create_table(
        "vault_key",
        *(_name(column) for column in ("tenant", "trajectory_id", "approval_id")),
        *(sa.Column("wrapped", sa.LargeBinary(), nullable=False), _long("created_us"), _long("expires_us")),
        _key("vault_key", "tenant", "trajectory_id"),
    )
    op.create_index("ix_vault_key_expires", "vault_key", ["expires_us"])
    op.create_table(
        "vault_segment",
        *(_name("tenant"), _name("event_id"), sa.Column("choice", sa.Integer(), nullable=False), _name("trajectory_id")),
        *(sa.Column("sealed", sa.LargeBinary(), nullable=False), _key("vault_segment", "tenant", "event_id", "choice")),
    )
    op.create_index("ix_vault_segment_trajectory", "vault_segment", ["tenant", "trajectory_id"])
    op.create_table(
        "cosignature",
        *(_name("tenant"), _long("size"), _name("witness"), _long("signed_s"), _text("line"), _long("added_us")),
        _key("cosignature", "tenant", "size", "witness", "signed_s"),
    )
    op.create_table(
        "review_mark",
        *(_name(column) for column in ("tenant", "mark_id", "event_id", "verdict", "kind")),
        *(_text("path"), sa.Column("start", sa.Integer(), nullable=False), _name("surrogate"), sa.Column("policy", sa.Integer())),
        *(_text("reason"), _name("key_id"), _long("created_us"), _key("review_mark", "tenant", "mark_id")),
    )
    op.create_index("ix_review_mark_event", "review_mark", ["tenant", "event_id"])
    for table in ("training_use", "lease_item"):
        op.add_column(table, sa.Column("vaulted", sa.Boolean(), nullable=False, server_default=sa.false()))
    guard_append_only(op.get_bind(), _GUARDED)


def downgrade() -> None:
    """The vault is emptied for good."""
    drop_guards(op.get_bind(), _GUARDED)
    for table in ("lease_item", "training_use"):
        op.drop_column(table, "vaulted")
    for table in ("review_mark", "cosignature", "vault_segment", "vault_key", "vault_approval"):
        op.drop_table(table)


def _name(column: str) -> "sa.Column[str]":
    return sa.Column(column, sa.String(length=128), nullable=False)


def _long(column: str) -> "sa.Column[int]":
    return sa.Column(column, sa.BigInteger(), nullable=False)


def _text(column: str) -> "sa.Column[str]":
    return sa.Column(column, sa.Text(), nullable=False)


def _key(table: str, *columns: str) -> sa.PrimaryKeyConstraint:
    return sa.PrimaryKeyConstraint(*columns, name=op.f(f"pk_{table}"))

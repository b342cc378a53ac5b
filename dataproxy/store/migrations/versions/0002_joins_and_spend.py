"""Joining by exact ids without a conversation to look in, and what external models cost."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """An index on where stored answers end, and the sums of what was spent by key and model."""
    op.create_index("ix_token_segment_full_digest", "token_segment", ["tenant", "full_digest"])
    op.create_table(
        "key_spend",
        sa.Column("tenant", sa.String(length=128), nullable=False),
        sa.Column("key_id", sa.String(length=128), nullable=False),
        sa.Column("model", sa.String(length=128), nullable=False),
        sa.Column("nanodollars", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("tenant", "key_id", "model", name=op.f("pk_key_spend")),
    )


def downgrade() -> None:
    """What was spent is forgotten."""
    op.drop_table("key_spend")
    op.drop_index("ix_token_segment_full_digest", "token_segment")

"""What a key may use, and what it has used."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"

LIMITS = ("max_concurrency", "requests_per_minute", "tokens_per_minute", "budget_tokens")


def upgrade() -> None:
    """Limits on keys, all optional, and the sums of tokens by key."""
    for limit in LIMITS:
        op.add_column("api_key", sa.Column(limit, sa.BigInteger(), nullable=True))
    op.create_table(
        "key_usage",
        sa.Column("tenant", sa.String(length=128), nullable=False),
        sa.Column("key_id", sa.String(length=128), nullable=False),
        sa.Column("num_tokens", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("tenant", "key_id", name=op.f("pk_key_usage")),
    )


def downgrade() -> None:
    """Keys are without limits, and what they used is forgotten."""
    op.drop_table("key_usage")
    for limit in LIMITS:
        op.drop_column("api_key", limit)

"""Questions that reviewers ask again and again, under a name."""

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"


def upgrade() -> None:
    """A tenant's saved filters of the list of trajectories."""
    op.create_table(
        "saved_view",
        sa.Column("tenant", sa.String(length=128), nullable=False),
        sa.Column("view_id", sa.String(length=128), nullable=False),
        sa.Column("title", sa.Text(), nullable=False),
        sa.Column("query", sa.Text(), nullable=False),
        sa.Column("key_id", sa.String(length=128), nullable=False),
        sa.Column("created_us", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("tenant", "view_id", name=op.f("pk_saved_view")),
    )


def downgrade() -> None:
    """Nothing is saved."""
    op.drop_table("saved_view")

"""The lane whose workers served a trajectory: stable, canary, or both."""

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"


def upgrade() -> None:
    """Not known of what is stored; the next call of a trajectory says it."""
    op.add_column("trajectory", sa.Column("lane", sa.String(length=16), nullable=False, server_default=""))


def downgrade() -> None:
    """Trajectories of both lanes count as any other."""
    op.drop_column("trajectory", "lane")

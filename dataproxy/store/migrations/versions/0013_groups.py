"""The group of a trajectory: the task that several sessions attempt; how long an agent's attempts wait for each other."""

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"

_NAMED = sa.text("group_id <> ''")


def upgrade() -> None:
    """What is stored is in no group."""
    op.add_column("trajectory", sa.Column("group_id", sa.String(length=128), nullable=False, server_default=""))
    op.add_column("trajectory", sa.Column("group_size", sa.Integer(), nullable=False, server_default="0"))
    op.create_index(
        "ix_trajectory_group", "trajectory", ["tenant", "group_id", "agent"], sqlite_where=_NAMED, postgresql_where=_NAMED
    )
    op.add_column("agent", sa.Column("group_wait_s", sa.Float(), nullable=True))


def downgrade() -> None:
    """Attempts are trajectories like any."""
    op.drop_column("agent", "group_wait_s")
    op.drop_index("ix_trajectory_group", "trajectory")
    op.drop_column("trajectory", "group_size")
    op.drop_column("trajectory", "group_id")

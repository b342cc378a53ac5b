"""Rewarded and eligible trajectories by the newest policy version in them, which leases begin with."""

import sqlalchemy as sa
from alembic import op

revision = "0015"
down_revision = "0014"


def upgrade() -> None:
    """Faster leases; nothing else changes."""
    lendable = sa.text("num_rewards > 0 AND num_eligible > 0")
    columns = ["newest_version", "last_us", "trajectory_id", "tenant"]
    op.create_index("ix_trajectory_lendable", "trajectory", columns, sqlite_where=lendable, postgresql_where=lendable)


def downgrade() -> None:
    """Leases look at every rewarded trajectory again."""
    op.drop_index("ix_trajectory_lendable", "trajectory")

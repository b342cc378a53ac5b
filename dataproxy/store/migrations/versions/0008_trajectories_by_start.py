"""Lists of trajectories, newest first: of everybody, a tenant, an agent, a policy version."""

from alembic import op

revision = "0008"
down_revision = "0007"

_INDEXES = {
    "ix_trajectory_started": ["started_us", "trajectory_id"],
    "ix_trajectory_tenant_started": ["tenant", "started_us", "trajectory_id"],
    "ix_trajectory_agent": ["tenant", "agent", "started_us", "trajectory_id"],
    "ix_trajectory_version": ["tenant", "last_version", "started_us", "trajectory_id"],
}


def upgrade() -> None:
    """A page of a list costs its rows, however many there are."""
    for name, columns in _INDEXES.items():
        op.create_index(name, "trajectory", columns)


def downgrade() -> None:
    """Lists look at every row again."""
    for name in _INDEXES:
        op.drop_index(name, "trajectory")

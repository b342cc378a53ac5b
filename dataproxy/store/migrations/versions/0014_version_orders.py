"""Orders about which version serves; rewarded trajectories by policy version."""

import sqlalchemy as sa
from alembic import op

from dataproxy.store.dialect import drop_guards, guard_append_only

revision = "0014"
down_revision = "0013"

_GUARDED = ("version_order",)


def upgrade() -> None:
    """Nothing was ordered so far."""
    op.create_table(
        "version_order",
        *(_name(column) for column in ("tenant", "order_id", "state", "version", "action")),
        *(sa.Column("share", sa.Float(), nullable=False), sa.Column("said", sa.Text(), nullable=False), _name("key_id")),
        sa.Column("created_us", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("tenant", "order_id", "state", name=op.f("pk_version_order")),
    )
    guard_append_only(op.get_bind(), _GUARDED)
    rewarded = sa.text("num_rewards > 0")
    columns = ["last_version", "started_us", "trajectory_id", "tenant"]
    op.create_index("ix_trajectory_rewarded", "trajectory", columns, sqlite_where=rewarded, postgresql_where=rewarded)


def downgrade() -> None:
    """What was ordered is forgotten; which version serves is not."""
    op.drop_index("ix_trajectory_rewarded", "trajectory")
    drop_guards(op.get_bind(), _GUARDED)
    op.drop_table("version_order")


def _name(column: str) -> "sa.Column[str]":
    return sa.Column(column, sa.String(length=128), nullable=False)

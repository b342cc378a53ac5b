"""What an agent's trajectories wait for before they train, built-in sources of rewards, and what judges said."""

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"

_OF_AGENT = ("terminal", "deadline_s", "deadline_value", "sources", "swept_position")


def upgrade() -> None:
    """No rule and no source until somebody sets one; what was rewarded so far has ended, as it did before."""
    types: tuple[sa.types.TypeEngine[Any], ...] = (sa.String(length=128), sa.Float(), sa.Float(), sa.Text(), sa.BigInteger())
    for column, type_ in zip(_OF_AGENT, types, strict=True):
        op.add_column("agent", sa.Column(column, type_))
    op.add_column("trajectory", sa.Column("ended", sa.Boolean(), nullable=False, server_default=sa.false()))
    trajectory = sa.table("trajectory", sa.column("ended", sa.Boolean), sa.column("num_rewards", sa.Integer))
    op.execute(trajectory.update().where(trajectory.c.num_rewards > 0).values(ended=sa.true()))
    op.create_table(
        "judgement",
        *(_name(column) for column in ("tenant", "event_id", "trajectory_id", "agent", "next_event", "state")),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("votes", sa.Text(), nullable=False),
        *(sa.Column(column, sa.BigInteger(), nullable=False) for column in ("num_tokens", "nanodollars", "created_us")),
        sa.Column("decided_us", sa.BigInteger()),
        sa.PrimaryKeyConstraint("tenant", "event_id", name=op.f("pk_judgement")),
    )
    op.create_index("ix_judgement_state", "judgement", ["state", "created_us"])
    op.create_index("ix_judgement_trajectory", "judgement", ["tenant", "trajectory_id"])


def downgrade() -> None:
    """Any reward opens a trajectory again, and no source gives any by itself."""
    op.drop_table("judgement")
    op.drop_column("trajectory", "ended")
    for column in reversed(_OF_AGENT):
        op.drop_column("agent", column)


def _name(column: str) -> "sa.Column[str]":
    return sa.Column(column, sa.String(length=128), nullable=False)

"""What becomes of a tenant's calls while they cannot be recorded."""

import sqlalchemy as sa
from alembic import op

from dataproxy.store.dialect import drop_guards, guard_append_only

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    """The tenant's choices, the latest of which holds."""
    op.create_table(
        "recording_policy",
        sa.Column("tenant", sa.String(length=128), nullable=False),
        sa.Column("policy_id", sa.String(length=128), nullable=False),
        sa.Column("unrecorded", sa.Boolean(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("key_id", sa.String(length=128), nullable=False),
        sa.Column("created_us", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("tenant", "policy_id", name=op.f("pk_recording_policy")),
    )
    guard_append_only(op.get_bind(), ("recording_policy",))


def downgrade() -> None:
    """Every tenant's calls are refused while they cannot be recorded."""
    drop_guards(op.get_bind(), ("recording_policy",))
    op.drop_table("recording_policy")

"""What tenants say about redaction."""

import sqlalchemy as sa
from alembic import op

from dataproxy.store.dialect import drop_guards, guard_append_only

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    """The tenant's policies, the one of the highest number holds."""
    op.create_table(
        "redaction_policy",
        sa.Column("tenant", sa.String(length=128), nullable=False),
        sa.Column("policy_id", sa.String(length=128), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("body", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("key_id", sa.String(length=128), nullable=False),
        sa.Column("created_us", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("tenant", "policy_id", name=op.f("pk_redaction_policy")),
        sa.UniqueConstraint("tenant", "number", name=op.f("uq_redaction_policy_tenant_number")),
    )
    guard_append_only(op.get_bind(), ("redaction_policy",))


def downgrade() -> None:
    """Every tenant has the built-in rules alone."""
    drop_guards(op.get_bind(), ("redaction_policy",))
    op.drop_table("redaction_policy")

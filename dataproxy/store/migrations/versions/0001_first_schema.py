"""The first schema."""

import sqlalchemy as sa
from alembic import op

from dataproxy.store.dialect import guard_append_only, is_postgres

revision = "0001"
down_revision = None

TABLES = (
    "token_segment",
    "event_span",
    "content_span",
    "trajectory",
    "training_use",
    "tenant",
    "session",
    "reward",
    "redaction_count",
    "quarantine",
    "policy_version_state",
    "policy_version",
    "pending_reward",
    "lease_item",
    "lease",
    "journal_offset",
    "event",
    "eligibility",
    "dead_letter",
    "conversation_end",
    "content",
    "consent",
    "batch",
    "api_key",
    "agent",
    "access_log",
)
"""Those that refer to others first."""
BY_MONTH = "RANGE (event_id)"
"""On PostgreSQL: an event id begins with its time. There ``position`` is unique by the lock of the one writer alone."""
APPEND_ONLY = (
    "event",
    "reward",
    "consent",
    "eligibility",
    "batch",
    "training_use",
    "access_log",
    "policy_version_state",
    "quarantine",
)


def upgrade() -> None:
    """Every table, its indices, and the guards of the append-only ones."""
    op.create_table(
        "access_log",
        sa.Column("tenant", sa.String(length=128), nullable=False),
        sa.Column("event_id", sa.String(length=128), nullable=False),
        sa.Column("key_id", sa.String(length=128), nullable=False),
        sa.Column("role", sa.String(length=128), nullable=False),
        sa.Column("what", sa.String(length=128), nullable=False),
        sa.Column("target", sa.String(length=128), nullable=False),
        sa.Column("at_us", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("tenant", "event_id", name=op.f("pk_access_log")),
    )
    op.create_table(
        "agent",
        sa.Column("tenant", sa.String(length=128), nullable=False),
        sa.Column("agent", sa.String(length=128), nullable=False),
        sa.Column("settle_s", sa.Float(), nullable=True),
        sa.Column("created_us", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("tenant", "agent", name=op.f("pk_agent")),
    )
    op.create_table(
        "api_key",
        sa.Column("tenant", sa.String(length=128), nullable=False),
        sa.Column("key_id", sa.String(length=128), nullable=False),
        sa.Column("key_hash", sa.String(length=64), nullable=False),
        sa.Column("agent", sa.String(length=128), nullable=False),
        sa.Column("role", sa.String(length=128), nullable=False),
        sa.Column("models", sa.Text(), nullable=False),
        sa.Column("created_us", sa.BigInteger(), nullable=False),
        sa.Column("expires_us", sa.BigInteger(), nullable=True),
        sa.Column("revoked_us", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("tenant", "key_id", name=op.f("pk_api_key")),
        sa.UniqueConstraint("key_hash", name=op.f("uq_api_key_key_hash")),
    )
    op.create_table(
        "batch",
        sa.Column("tenant", sa.String(length=128), nullable=False),
        sa.Column("batch_id", sa.String(length=128), nullable=False),
        sa.Column("lease_id", sa.String(length=128), nullable=False),
        sa.Column("version", sa.String(length=128), nullable=False),
        sa.Column("created_us", sa.BigInteger(), nullable=False),
        sa.Column("body", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("tenant", "batch_id", name=op.f("pk_batch")),
    )
    op.create_table(
        "consent",
        sa.Column("tenant", sa.String(length=128), nullable=False),
        sa.Column("consent_id", sa.String(length=128), nullable=False),
        sa.Column("agent", sa.String(length=128), nullable=False),
        sa.Column("recording", sa.Boolean(), nullable=False),
        sa.Column("training", sa.Boolean(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("key_id", sa.String(length=128), nullable=False),
        sa.Column("created_us", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("tenant", "consent_id", name=op.f("pk_consent")),
    )
    op.create_table(
        "content",
        sa.Column("tenant", sa.String(length=128), nullable=False),
        sa.Column("digest", sa.LargeBinary(length=16), nullable=False),
        sa.Column("data", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("tenant", "digest", name=op.f("pk_content")),
    )
    op.create_table(
        "conversation_end",
        sa.Column("tenant", sa.String(length=128), nullable=False),
        sa.Column("event_id", sa.String(length=128), nullable=False),
        sa.Column("choice", sa.Integer(), nullable=False),
        sa.Column("agent", sa.String(length=128), nullable=False),
        sa.Column("session_id", sa.String(length=128), nullable=False),
        sa.Column("trajectory_id", sa.String(length=128), nullable=False),
        sa.Column("digest", sa.LargeBinary(length=16), nullable=False),
        sa.Column("num_extended", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("tenant", "event_id", "choice", name=op.f("pk_conversation_end")),
    )
    op.create_index("ix_conversation_end_digest", "conversation_end", ["tenant", "agent", "digest"], unique=False)
    op.create_table(
        "dead_letter",
        sa.Column("tenant", sa.String(length=128), nullable=False),
        sa.Column("letter_id", sa.String(length=128), nullable=False),
        sa.Column("kind", sa.String(length=128), nullable=False),
        sa.Column("reason", sa.String(length=128), nullable=False),
        sa.Column("body", sa.LargeBinary(), nullable=False),
        sa.Column("created_us", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("tenant", "letter_id", name=op.f("pk_dead_letter")),
    )
    op.create_table(
        "eligibility",
        sa.Column("tenant", sa.String(length=128), nullable=False),
        sa.Column("event_id", sa.String(length=128), nullable=False),
        sa.Column("choice", sa.Integer(), nullable=False),
        sa.Column("eligible", sa.Boolean(), nullable=False),
        sa.Column("reason", sa.String(length=128), nullable=False),
        sa.Column("policy", sa.String(length=128), nullable=False),
        sa.Column("decided_us", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("tenant", "event_id", "choice", name=op.f("pk_eligibility")),
    )
    op.create_index("ix_eligibility_reason", "eligibility", ["tenant", "reason"], unique=False)
    op.create_table(
        "event",
        sa.Column("tenant", sa.String(length=128), nullable=False),
        sa.Column("event_id", sa.String(length=128), nullable=False),
        sa.Column("position", sa.BigInteger(), nullable=False),
        sa.Column("kind", sa.String(length=128), nullable=False),
        sa.Column("agent", sa.String(length=128), nullable=False),
        sa.Column("subject", sa.String(length=128), nullable=False),
        sa.Column("session_id", sa.String(length=128), nullable=False),
        sa.Column("trajectory_id", sa.String(length=128), nullable=False),
        sa.Column("seq", sa.Integer(), nullable=False),
        sa.Column("parent_id", sa.String(length=128), nullable=True),
        sa.Column("started_us", sa.BigInteger(), nullable=False),
        sa.Column("ended_us", sa.BigInteger(), nullable=False),
        sa.Column("boundary", sa.String(length=128), nullable=False),
        sa.Column("model", sa.String(length=128), nullable=False),
        sa.Column("status", sa.Integer(), nullable=True),
        sa.Column("delivery", sa.String(length=128), nullable=False),
        sa.Column("finish_reason", sa.String(length=128), nullable=False),
        sa.Column("request_digest", sa.LargeBinary(length=16), nullable=True),
        sa.Column("body", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("tenant", "event_id", name=op.f("pk_event")),
        sa.UniqueConstraint("position", name=op.f("uq_event_position")).ddl_if(dialect="sqlite"),
        postgresql_partition_by=BY_MONTH,
    )
    if is_postgres(op.get_bind()):
        op.create_index("ix_event_position", "event", ["position"])
    op.create_index("ix_event_kind", "event", ["tenant", "kind", "position"], unique=False)
    op.create_index("ix_event_request", "event", ["tenant", "agent", "request_digest"], unique=False)
    op.create_index("ix_event_session", "event", ["tenant", "session_id", "position"], unique=False)
    op.create_index("ix_event_trajectory", "event", ["tenant", "trajectory_id", "seq"], unique=False)
    op.create_table(
        "journal_offset",
        sa.Column("segment", sa.String(length=128), nullable=False),
        sa.Column("offset", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("segment", name=op.f("pk_journal_offset")),
    )
    op.create_table(
        "lease",
        sa.Column("tenant", sa.String(length=128), nullable=False),
        sa.Column("lease_id", sa.String(length=128), nullable=False),
        sa.Column("key_id", sa.String(length=128), nullable=False),
        sa.Column("state", sa.String(length=128), nullable=False),
        sa.Column("created_us", sa.BigInteger(), nullable=False),
        sa.Column("deadline_us", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("tenant", "lease_id", name=op.f("pk_lease")),
    )
    op.create_index("ix_lease_state", "lease", ["state", "deadline_us"], unique=False)
    op.create_table(
        "lease_item",
        sa.Column("tenant", sa.String(length=128), nullable=False),
        sa.Column("trajectory_id", sa.String(length=128), nullable=False),
        sa.Column("lease_id", sa.String(length=128), nullable=False),
        sa.Column("held", sa.Boolean(), nullable=False),
        sa.Column("outcome", sa.String(length=128), nullable=True),
        sa.PrimaryKeyConstraint("tenant", "trajectory_id", "lease_id", name=op.f("pk_lease_item")),
    )
    op.create_index("ix_lease_item_lease", "lease_item", ["lease_id"], unique=False)
    op.create_table(
        "pending_reward",
        sa.Column("tenant", sa.String(length=128), nullable=False),
        sa.Column("reward_id", sa.String(length=128), nullable=False),
        sa.Column("event_id", sa.String(length=128), nullable=False),
        sa.Column("idempotency_key", sa.String(length=255), nullable=True),
        sa.Column("body", sa.LargeBinary(), nullable=False),
        sa.Column("received_us", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("tenant", "reward_id", name=op.f("pk_pending_reward")),
        sa.UniqueConstraint("tenant", "idempotency_key", name="uq_pending_reward_idempotency"),
    )
    op.create_index("ix_pending_reward_event", "pending_reward", ["tenant", "event_id"], unique=False)
    op.create_table(
        "policy_version",
        sa.Column("tenant", sa.String(length=128), nullable=False),
        sa.Column("version", sa.String(length=128), nullable=False),
        sa.Column("state", sa.String(length=128), nullable=False),
        sa.Column("created_us", sa.BigInteger(), nullable=False),
        sa.Column("body", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("tenant", "version", name=op.f("pk_policy_version")),
    )
    op.create_table(
        "policy_version_state",
        sa.Column("tenant", sa.String(length=128), nullable=False),
        sa.Column("position", sa.BigInteger(), nullable=False),
        sa.Column("version", sa.String(length=128), nullable=False),
        sa.Column("state", sa.String(length=128), nullable=False),
        sa.Column("key_id", sa.String(length=128), nullable=False),
        sa.Column("changed_us", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("tenant", "position", name=op.f("pk_policy_version_state")),
    )
    op.create_table(
        "quarantine",
        sa.Column("tenant", sa.String(length=128), nullable=False),
        sa.Column("event_id", sa.String(length=128), nullable=False),
        sa.Column("reason", sa.String(length=128), nullable=False),
        sa.Column("sealed", sa.LargeBinary(), nullable=False),
        sa.Column("created_us", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("tenant", "event_id", name=op.f("pk_quarantine")),
    )
    op.create_table(
        "redaction_count",
        sa.Column("tenant", sa.String(length=128), nullable=False),
        sa.Column("kind", sa.String(length=128), nullable=False),
        sa.Column("num", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("tenant", "kind", name=op.f("pk_redaction_count")),
    )
    op.create_table(
        "reward",
        sa.Column("tenant", sa.String(length=128), nullable=False),
        sa.Column("reward_id", sa.String(length=128), nullable=False),
        sa.Column("target_kind", sa.String(length=128), nullable=False),
        sa.Column("target_id", sa.String(length=128), nullable=False),
        sa.Column("trajectory_id", sa.String(length=128), nullable=False),
        sa.Column("name", sa.String(length=128), nullable=False),
        sa.Column("value", sa.Float(), nullable=True),
        sa.Column("label", sa.Text(), nullable=True),
        sa.Column("correction", sa.Text(), nullable=True),
        sa.Column("source", sa.String(length=128), nullable=False),
        sa.Column("explanation", sa.Text(), nullable=True),
        sa.Column("idempotency_key", sa.String(length=255), nullable=True),
        sa.Column("supersedes", sa.String(length=128), nullable=True),
        sa.Column("key_id", sa.String(length=128), nullable=False),
        sa.Column("received_us", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("tenant", "reward_id", name=op.f("pk_reward")),
        sa.UniqueConstraint("tenant", "idempotency_key", name="uq_reward_idempotency"),
    )
    op.create_index("ix_reward_trajectory", "reward", ["tenant", "trajectory_id", "received_us"], unique=False)
    op.create_table(
        "session",
        sa.Column("tenant", sa.String(length=128), nullable=False),
        sa.Column("session_id", sa.String(length=128), nullable=False),
        sa.Column("agent", sa.String(length=128), nullable=False),
        sa.Column("source", sa.String(length=128), nullable=False),
        sa.Column("routing_name", sa.String(length=128), nullable=False),
        sa.Column("created_us", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("tenant", "session_id", name=op.f("pk_session")),
    )
    op.create_index("ix_session_routing_name", "session", ["tenant", "routing_name"], unique=False)
    op.create_table(
        "tenant",
        sa.Column("tenant", sa.String(length=128), nullable=False),
        sa.Column("created_us", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("tenant", name=op.f("pk_tenant")),
    )
    op.create_table(
        "training_use",
        sa.Column("tenant", sa.String(length=128), nullable=False),
        sa.Column("trajectory_id", sa.String(length=128), nullable=False),
        sa.Column("version", sa.String(length=128), nullable=False),
        sa.Column("lease_id", sa.String(length=128), nullable=False),
        sa.Column("used_us", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("tenant", "trajectory_id", "version", name=op.f("pk_training_use")),
    )
    op.create_index("ix_training_use_version", "training_use", ["version"], unique=False)
    op.create_table(
        "trajectory",
        sa.Column("tenant", sa.String(length=128), nullable=False),
        sa.Column("trajectory_id", sa.String(length=128), nullable=False),
        sa.Column("agent", sa.String(length=128), nullable=False),
        sa.Column("session_id", sa.String(length=128), nullable=False),
        sa.Column("started_us", sa.BigInteger(), nullable=False),
        sa.Column("last_us", sa.BigInteger(), nullable=False),
        sa.Column("num_events", sa.Integer(), nullable=False),
        sa.Column("num_eligible", sa.Integer(), nullable=False),
        sa.Column("num_rewards", sa.Integer(), nullable=False),
        sa.Column("times_trained", sa.Integer(), nullable=False),
        sa.Column("closed", sa.Boolean(), nullable=False),
        sa.Column("last_version", sa.Integer(), nullable=False),
        sa.Column("newest_version", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("tenant", "trajectory_id", name=op.f("pk_trajectory")),
    )
    op.create_index("ix_trajectory_ready", "trajectory", ["num_rewards", "num_eligible", "times_trained", "last_us"], unique=False)
    op.create_index("ix_trajectory_session", "trajectory", ["tenant", "session_id", "last_us"], unique=False)
    op.create_table(
        "content_span",
        sa.Column("tenant", sa.String(length=128), nullable=False),
        sa.Column("digest", sa.LargeBinary(length=16), nullable=False),
        sa.Column("ordinal", sa.Integer(), nullable=False),
        sa.Column("kind", sa.String(length=128), nullable=False),
        sa.Column("detector", sa.String(length=128), nullable=False),
        sa.Column("score", sa.Float(), nullable=False),
        sa.Column("path", sa.Text(), nullable=False),
        sa.Column("start", sa.Integer(), nullable=False),
        sa.Column("end", sa.Integer(), nullable=False),
        sa.Column("surrogate", sa.String(length=128), nullable=False),
        sa.ForeignKeyConstraint(["tenant", "digest"], ["content.tenant", "content.digest"], name="fk_content_span_content"),
        sa.PrimaryKeyConstraint("tenant", "digest", "ordinal", name=op.f("pk_content_span")),
    )
    op.create_table(
        "event_span",
        sa.Column("tenant", sa.String(length=128), nullable=False),
        sa.Column("event_id", sa.String(length=128), nullable=False),
        sa.Column("ordinal", sa.Integer(), nullable=False),
        sa.Column("kind", sa.String(length=128), nullable=False),
        sa.Column("detector", sa.String(length=128), nullable=False),
        sa.Column("score", sa.Float(), nullable=False),
        sa.Column("path", sa.Text(), nullable=False),
        sa.Column("start", sa.Integer(), nullable=False),
        sa.Column("end", sa.Integer(), nullable=False),
        sa.Column("surrogate", sa.String(length=128), nullable=False),
        sa.ForeignKeyConstraint(["tenant", "event_id"], ["event.tenant", "event.event_id"], name="fk_event_span_event"),
        sa.PrimaryKeyConstraint("tenant", "event_id", "ordinal", name=op.f("pk_event_span")),
        postgresql_partition_by=BY_MONTH,
    )
    op.create_table(
        "token_segment",
        sa.Column("tenant", sa.String(length=128), nullable=False),
        sa.Column("event_id", sa.String(length=128), nullable=False),
        sa.Column("choice", sa.Integer(), nullable=False),
        sa.Column("trajectory_id", sa.String(length=128), nullable=False),
        sa.Column("tokenizer", sa.String(length=128), nullable=False),
        sa.Column("finish_reason", sa.String(length=128), nullable=True),
        sa.Column("temperature", sa.Float(), nullable=False),
        sa.Column("num_prompt", sa.Integer(), nullable=False),
        sa.Column("num_output", sa.Integer(), nullable=False),
        sa.Column("num_altered", sa.Integer(), nullable=False),
        sa.Column("full_digest", sa.LargeBinary(length=16), nullable=False),
        sa.Column("parent_event", sa.String(length=128), nullable=True),
        sa.Column("parent_choice", sa.Integer(), nullable=True),
        sa.Column("prompt_ids", sa.LargeBinary(), nullable=False),
        sa.Column("output_ids", sa.LargeBinary(), nullable=False),
        sa.Column("logprobs", sa.LargeBinary(), nullable=False),
        sa.Column("versions", sa.LargeBinary(), nullable=False),
        sa.Column("prompt_altered", sa.LargeBinary(), nullable=False),
        sa.Column("output_altered", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(["tenant", "event_id"], ["event.tenant", "event.event_id"], name="fk_token_segment_event"),
        sa.PrimaryKeyConstraint("tenant", "event_id", "choice", name=op.f("pk_token_segment")),
        postgresql_partition_by=BY_MONTH,
    )
    op.create_index("ix_token_segment_trajectory", "token_segment", ["tenant", "trajectory_id", "num_prompt"], unique=False)
    guard_append_only(op.get_bind(), APPEND_ONLY)


def downgrade() -> None:
    """Nothing is left."""
    for table in TABLES:
        op.drop_table(table)

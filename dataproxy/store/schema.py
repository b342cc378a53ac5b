"""The tables, declared once. Every key of a tenant's data leads with the tenant; times are UTC µs; "" as tenant is the operator.

What is append-only (APPEND_ONLY) is guarded by triggers. Content, tokens and salts may be deleted, by erasure alone.
"""

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Float,
    ForeignKeyConstraint,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
    UniqueConstraint,
    false,
    text,
)

from dataproxy.store.columns import name, span_columns, tenant_key, time_us

metadata = MetaData(
    naming_convention={"ix": "ix_%(column_0_label)s", "uq": "uq_%(table_name)s_%(column_0_name)s", "pk": "pk_%(table_name)s"}
)

BY_MONTH = "RANGE (event_id)"
"""What grows with traffic lies in partitions by month on PostgreSQL; an event id begins with its time."""

tenant = Table("tenant", metadata, tenant_key(), time_us("created_us"))

agent = Table(
    "agent",
    metadata,
    tenant_key(),
    name("agent", primary=True),
    Column("settle_s", Float),
    time_us("created_us"),
    Column("terminal", String(128)),
    Column("deadline_s", Float),
    Column("deadline_value", Float),
    Column("sources", Text),
    Column("swept_position", BigInteger),
)
"""``terminal``: the reward name that ends a trajectory; None: any reward does. ``sources`` is JSON; it looked at events up to
``swept_position``.
"""

api_key = Table(
    "api_key",
    metadata,
    tenant_key(),
    name("key_id", primary=True),
    Column("key_hash", String(64), nullable=False, unique=True),
    name("agent"),
    name("role"),
    Column("models", Text, nullable=False),
    time_us("created_us"),
    Column("expires_us", BigInteger),
    Column("revoked_us", BigInteger),
    Column("max_concurrency", BigInteger),
    Column("requests_per_minute", BigInteger),
    Column("tokens_per_minute", BigInteger),
    Column("budget_tokens", BigInteger),
)

key_usage = Table(
    "key_usage", metadata, tenant_key(), name("key_id", primary=True), Column("num_tokens", BigInteger, nullable=False)
)

consent = Table(
    "consent",
    metadata,
    tenant_key(),
    name("consent_id", primary=True),
    name("agent"),
    Column("session_id", String(128), nullable=False, server_default=""),
    Column("recording", Boolean, nullable=False),
    Column("training", Boolean, nullable=False),
    Column("reason", Text, nullable=False),
    name("key_id"),
    time_us("created_us"),
)

recording_policy = Table(
    "recording_policy",
    metadata,
    tenant_key(),
    name("policy_id", primary=True),
    Column("unrecorded", Boolean, nullable=False),
    Column("reason", Text, nullable=False),
    name("key_id"),
    time_us("created_us"),
)

redaction_policy = Table(
    "redaction_policy",
    metadata,
    tenant_key(),
    name("policy_id", primary=True),
    Column("number", Integer, nullable=False),
    Column("body", Text, nullable=False),
    Column("reason", Text, nullable=False),
    name("key_id"),
    time_us("created_us"),
    UniqueConstraint("tenant", "number", name="uq_redaction_policy_tenant_number"),
)
"""``body`` is JSON; exact values that may stay are keyed digests in it. The highest number of a tenant holds."""

session = Table(
    "session",
    metadata,
    tenant_key(),
    name("session_id", primary=True),
    name("agent"),
    name("source"),
    name("routing_name"),
    time_us("created_us"),
    Index("ix_session_routing_name", "tenant", "routing_name"),
)

trajectory = Table(
    "trajectory",
    metadata,
    tenant_key(),
    name("trajectory_id", primary=True),
    name("agent"),
    name("session_id"),
    time_us("started_us"),
    time_us("last_us"),
    Column("num_events", Integer, nullable=False),
    Column("num_eligible", Integer, nullable=False),
    Column("num_rewards", Integer, nullable=False),
    Column("times_trained", Integer, nullable=False),
    Column("closed", Boolean, nullable=False),
    Column("last_version", Integer, nullable=False),
    Column("newest_version", Integer, nullable=False),
    Column("ended", Boolean, nullable=False, server_default=false()),
    Index("ix_trajectory_session", "tenant", "session_id", "last_us"),
    Index("ix_trajectory_ready", "num_rewards", "num_eligible", "times_trained", "last_us"),
    Index("ix_trajectory_started", "started_us", "trajectory_id"),
    Index("ix_trajectory_tenant_started", "tenant", "started_us", "trajectory_id"),
    Index("ix_trajectory_agent", "tenant", "agent", "started_us", "trajectory_id"),
    Index("ix_trajectory_version", "tenant", "last_version", "started_us", "trajectory_id"),
)

event = Table(
    "event",
    metadata,
    tenant_key(),
    name("event_id", primary=True),
    Column("position", BigInteger, nullable=False),
    name("kind"),
    name("agent"),
    name("subject"),
    name("session_id"),
    name("trajectory_id"),
    Column("seq", Integer, nullable=False),
    Column("parent_id", String(128)),
    time_us("started_us"),
    time_us("ended_us"),
    name("boundary"),
    name("model"),
    Column("status", Integer),
    name("delivery"),
    name("finish_reason"),
    Column("request_digest", LargeBinary(16)),
    Column("body", LargeBinary, nullable=False),
    UniqueConstraint("position", name="uq_event_position").ddl_if(dialect="sqlite"),
    Index("ix_event_position", "position").ddl_if(dialect="postgresql"),
    Index("ix_event_trajectory", "tenant", "trajectory_id", "seq"),
    Index("ix_event_session", "tenant", "session_id", "position"),
    Index("ix_event_kind", "tenant", "kind", "position"),
    Index("ix_event_request", "tenant", "agent", "request_digest"),
    postgresql_partition_by=BY_MONTH,
)

conversation_end = Table(
    "conversation_end",
    metadata,
    tenant_key(),
    name("event_id", primary=True),
    Column("choice", Integer, primary_key=True),
    name("agent"),
    name("session_id"),
    name("trajectory_id"),
    Column("digest", LargeBinary(16), nullable=False),
    Column("num_extended", Integer, nullable=False),
    Index("ix_conversation_end_digest", "tenant", "agent", "digest"),
)

content = Table(
    "content",
    metadata,
    tenant_key(),
    Column("digest", LargeBinary(16), primary_key=True),
    Column("data", LargeBinary, nullable=False),
    Column("owner", String(128), nullable=False, server_default=""),
    Index("ix_content_owner", "tenant", "owner"),
)
"""``owner`` is the event whose leaf commits to the content; "" where it has a leaf of its own."""

content_span = Table(
    "content_span",
    metadata,
    tenant_key(),
    Column("digest", LargeBinary(16), primary_key=True),
    Column("ordinal", Integer, primary_key=True),
    *span_columns(),
    ForeignKeyConstraint(["tenant", "digest"], ["content.tenant", "content.digest"], name="fk_content_span_content"),
)

event_span = Table(
    "event_span",
    metadata,
    tenant_key(),
    name("event_id", primary=True),
    Column("ordinal", Integer, primary_key=True),
    *span_columns(),
    ForeignKeyConstraint(["tenant", "event_id"], ["event.tenant", "event.event_id"], name="fk_event_span_event"),
    postgresql_partition_by=BY_MONTH,
)

redaction_count = Table(
    "redaction_count", metadata, tenant_key(), name("kind", primary=True), Column("num", BigInteger, nullable=False)
)

token_segment = Table(
    "token_segment",
    metadata,
    tenant_key(),
    name("event_id", primary=True),
    Column("choice", Integer, primary_key=True),
    name("trajectory_id"),
    name("tokenizer"),
    Column("finish_reason", String(128)),
    Column("temperature", Float, nullable=False),
    Column("num_prompt", Integer, nullable=False),
    Column("num_output", Integer, nullable=False),
    Column("num_altered", Integer, nullable=False),
    Column("full_digest", LargeBinary(16), nullable=False),
    Column("parent_event", String(128)),
    Column("parent_choice", Integer),
    Column("prompt_ids", LargeBinary, nullable=False),
    Column("output_ids", LargeBinary, nullable=False),
    Column("logprobs", LargeBinary, nullable=False),
    Column("versions", LargeBinary, nullable=False),
    Column("prompt_altered", LargeBinary, nullable=False),
    Column("output_altered", LargeBinary, nullable=False),
    ForeignKeyConstraint(["tenant", "event_id"], ["event.tenant", "event.event_id"], name="fk_token_segment_event"),
    Index("ix_token_segment_trajectory", "tenant", "trajectory_id", "num_prompt"),
    Index("ix_token_segment_full_digest", "tenant", "full_digest"),
    postgresql_partition_by=BY_MONTH,
)

key_spend = Table(
    "key_spend",
    metadata,
    tenant_key(),
    name("key_id", primary=True),
    name("model", primary=True),
    Column("nanodollars", BigInteger, nullable=False),
)

eligibility = Table(
    "eligibility",
    metadata,
    tenant_key(),
    name("event_id", primary=True),
    Column("choice", Integer, primary_key=True),
    Column("eligible", Boolean, nullable=False),
    name("reason"),
    name("policy"),
    time_us("decided_us"),
    Index("ix_eligibility_reason", "tenant", "reason"),
)

reward = Table(
    "reward",
    metadata,
    tenant_key(),
    name("reward_id", primary=True),
    name("target_kind"),
    name("target_id"),
    name("trajectory_id"),
    name("name"),
    Column("value", Float),
    Column("label", Text),
    Column("correction", Text),
    name("source"),
    Column("explanation", Text),
    Column("idempotency_key", String(255)),
    Column("supersedes", String(128)),
    name("key_id"),
    time_us("received_us"),
    UniqueConstraint("tenant", "idempotency_key", name="uq_reward_idempotency"),
    Index("ix_reward_trajectory", "tenant", "trajectory_id", "received_us"),
)

pending_reward = Table(
    "pending_reward",
    metadata,
    tenant_key(),
    name("reward_id", primary=True),
    name("event_id"),
    Column("idempotency_key", String(255)),
    Column("body", LargeBinary, nullable=False),
    time_us("received_us"),
    Index("ix_pending_reward_event", "tenant", "event_id"),
    UniqueConstraint("tenant", "idempotency_key", name="uq_pending_reward_idempotency"),
)

dead_letter = Table(
    "dead_letter",
    metadata,
    tenant_key(),
    name("letter_id", primary=True),
    name("kind"),
    name("reason"),
    Column("body", LargeBinary, nullable=False),
    time_us("created_us"),
)

judgement = Table(
    "judgement",
    metadata,
    tenant_key(),
    name("event_id", primary=True),
    name("trajectory_id"),
    name("agent"),
    name("next_event"),
    name("state"),
    Column("attempts", Integer, nullable=False),
    Column("votes", Text, nullable=False),
    Column("num_tokens", BigInteger, nullable=False),
    Column("nanodollars", BigInteger, nullable=False),
    time_us("created_us"),
    Column("decided_us", BigInteger),
    Index("ix_judgement_state", "state", "created_us"),
    Index("ix_judgement_trajectory", "tenant", "trajectory_id"),
)
"""What a judge says of an event's answer by what came next; ``state``: waiting, rewarded, abstained."""

lease = Table(
    "lease",
    metadata,
    tenant_key(),
    name("lease_id", primary=True),
    name("key_id"),
    name("state"),
    time_us("created_us"),
    time_us("deadline_us"),
    Index("ix_lease_state", "state", "deadline_us"),
)

lease_item = Table(
    "lease_item",
    metadata,
    tenant_key(),
    name("trajectory_id", primary=True),
    name("lease_id", primary=True),
    Column("held", Boolean, nullable=False),
    Column("outcome", String(128)),
    Index("ix_lease_item_lease", "lease_id"),
)

policy_version = Table(
    "policy_version",
    metadata,
    tenant_key(),
    name("version", primary=True),
    name("state"),
    time_us("created_us"),
    Column("body", LargeBinary, nullable=False),
)

policy_version_state = Table(
    "policy_version_state",
    metadata,
    tenant_key(),
    Column("position", BigInteger, primary_key=True),
    name("version"),
    name("state"),
    name("key_id"),
    time_us("changed_us"),
)

batch = Table(
    "batch",
    metadata,
    tenant_key(),
    name("batch_id", primary=True),
    name("lease_id"),
    name("version"),
    time_us("created_us"),
    Column("body", LargeBinary, nullable=False),
)

training_use = Table(
    "training_use",
    metadata,
    tenant_key(),
    name("trajectory_id", primary=True),
    name("version", primary=True),
    name("lease_id"),
    time_us("used_us"),
    Index("ix_training_use_version", "version"),
)

access_log = Table(
    "access_log",
    metadata,
    tenant_key(),
    name("event_id", primary=True),
    name("key_id"),
    name("role"),
    name("what"),
    name("target"),
    time_us("at_us"),
    Column("purpose", Text, nullable=False, server_default=""),
)

quarantine = Table(
    "quarantine",
    metadata,
    tenant_key(),
    name("event_id", primary=True),
    name("reason"),
    Column("sealed", LargeBinary, nullable=False),
    time_us("created_us"),
)

journal_offset = Table(
    "journal_offset",
    metadata,
    name("segment", primary=True),
    Column("offset", BigInteger, nullable=False),
)

log_head = Table(
    "log_head",
    metadata,
    tenant_key(),
    Column("size", BigInteger, nullable=False),
    Column("frontier", LargeBinary, nullable=False),
    Column("base_position", BigInteger, nullable=False),
)
"""One row a tenant, locked by whoever appends. Events are committed to by their position less ``base_position``."""

log_leaf = Table(
    "log_leaf",
    metadata,
    tenant_key(),
    Column("leaf_index", BigInteger, primary_key=True),
    name("kind"),
    Column("row_key", String(300), nullable=False),
    name("chain"),
    Column("previous", LargeBinary(32), nullable=False),
    Column("commitment", LargeBinary(32), nullable=False),
    Column("leaf_hash", LargeBinary(32), nullable=False),
    Index("uq_log_leaf_row", "tenant", "kind", "row_key", unique=True),
    Index(
        "ix_log_leaf_chain", "tenant", "chain", "leaf_index", sqlite_where=text("chain <> ''"), postgresql_where=text("chain <> ''")
    ),
    sqlite_with_rowid=False,
)

log_salt = Table(
    "log_salt",
    metadata,
    tenant_key(),
    Column("leaf_index", BigInteger, primary_key=True),
    Column("salt", LargeBinary(16), nullable=False),
    sqlite_with_rowid=False,
)
"""Without its salt nobody can tell what a leaf committed to: erasure deletes the row."""

checkpoint = Table(
    "checkpoint",
    metadata,
    tenant_key(),
    Column("size", BigInteger, primary_key=True),
    Column("note", Text, nullable=False),
    time_us("cut_us"),
)

erasure = Table(
    "erasure",
    metadata,
    tenant_key(),
    name("erasure_id", primary=True),
    name("scope"),
    name("target"),
    Column("reason", Text, nullable=False),
    name("key_id"),
    time_us("erased_us"),
    Column("outcome", Text, nullable=False),
)

tombstone = Table(
    "tombstone",
    metadata,
    tenant_key(),
    name("kind", primary=True),
    Column("row_key", String(300), primary_key=True),
    Column("leaf_index", BigInteger, nullable=False),
    name("erasure_id"),
    Index("ix_tombstone_erasure", "tenant", "erasure_id", "leaf_index"),
)
"""Rows that were erased. The triggers of ``event`` and ``reward`` let exactly these be blanked."""

legal_hold = Table(
    "legal_hold",
    metadata,
    tenant_key(),
    name("hold_id", primary=True),
    name("action", primary=True),
    name("scope"),
    name("target"),
    Column("reason", Text, nullable=False),
    name("key_id"),
    time_us("created_us"),
)
"""``action`` is "add" or, in a second row, "release"."""

retention_policy = Table(
    "retention_policy",
    metadata,
    tenant_key(),
    name("policy_id", primary=True),
    name("agent"),
    name("class"),
    Column("days", Float),
    Column("reason", Text, nullable=False),
    name("key_id"),
    time_us("created_us"),
)
"""The latest row of the narrowest scope holds; ``days`` None: kept until erased."""

SHARED = ("policy_version",)
"""Tables whose rows under the operator's name every tenant may read: one policy serves them all."""

BLANKED: dict[str, tuple[str, dict[str, bytes | str | None]]] = {
    "event": ("event_id", {"subject": "", "request_digest": None, "body": b""}),
    "reward": ("reward_id", {"label": None, "correction": None, "explanation": None}),
}
"""What erasure may do to an append-only row that has a tombstone: (the column it is named by, columns and what they become)."""

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
    "log_leaf",
    "checkpoint",
    "erasure",
    "tombstone",
    "legal_hold",
    "retention_policy",
    "recording_policy",
    "redaction_policy",
)
"""Tables whose rows are never updated or deleted, but that erasure blanks the erased parts of ``event`` and ``reward``."""

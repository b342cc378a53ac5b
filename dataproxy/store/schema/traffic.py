"""What happened: sessions, trajectories, events, contents, tokens, and how far the journal is read."""

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Float,
    ForeignKeyConstraint,
    Index,
    Integer,
    LargeBinary,
    String,
    Table,
    UniqueConstraint,
    false,
    text,
)

from dataproxy.store.columns import name, span_columns, tenant_key, time_us
from dataproxy.store.schema.metadata import metadata

BY_MONTH = "RANGE (event_id)"
"""What grows with traffic lies in partitions by month on PostgreSQL; an event id begins with its time."""

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
    Column("lane", String(16), nullable=False, server_default=""),
    Column("group_id", String(128), nullable=False, server_default=""),
    Column("group_size", Integer, nullable=False, server_default="0"),
    Index(
        "ix_trajectory_group",
        *("tenant", "group_id", "agent"),
        sqlite_where=text("group_id <> ''"),
        postgresql_where=text("group_id <> ''"),
    ),
    Index("ix_trajectory_session", "tenant", "session_id", "last_us"),
    Index("ix_trajectory_ready", "num_rewards", "num_eligible", "times_trained", "last_us"),
    Index("ix_trajectory_started", "started_us", "trajectory_id"),
    Index("ix_trajectory_tenant_started", "tenant", "started_us", "trajectory_id"),
    Index("ix_trajectory_agent", "tenant", "agent", "started_us", "trajectory_id"),
    Index("ix_trajectory_version", "tenant", "last_version", "started_us", "trajectory_id"),
    Index(
        "ix_trajectory_rewarded",
        *("last_version", "started_us", "trajectory_id", "tenant"),
        sqlite_where=text("num_rewards > 0"),
        postgresql_where=text("num_rewards > 0"),
    ),
    Index(
        "ix_trajectory_lendable",
        *("newest_version", "last_us", "trajectory_id", "tenant"),
        sqlite_where=text("num_rewards > 0 AND num_eligible > 0"),
        postgresql_where=text("num_rewards > 0 AND num_eligible > 0"),
    ),
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
    Index("ix_event_id", "event_id"),
    Index("ix_event_tenant_position", "tenant", "position"),
    Index("ix_event_agent", "tenant", "agent", "position"),
    Index("ix_event_started", "tenant", "started_us", "position"),
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

journal_offset = Table(
    "journal_offset",
    metadata,
    name("segment", primary=True),
    Column("offset", BigInteger, nullable=False),
)

"""Whose data it is: tenants, agents, keys, consents and what each tenant chose."""

from sqlalchemy import BigInteger, Boolean, Column, Float, Integer, String, Table, Text, UniqueConstraint

from dataproxy.store.columns import name, tenant_key, time_us
from dataproxy.store.schema.metadata import metadata

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
    Column("group_wait_s", Float),
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

key_spend = Table(
    "key_spend",
    metadata,
    tenant_key(),
    name("key_id", primary=True),
    name("model", primary=True),
    Column("nanodollars", BigInteger, nullable=False),
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

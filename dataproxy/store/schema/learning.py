"""What is learned from it: rewards, judgements, leases, batches, versions."""

from sqlalchemy import BigInteger, Boolean, Column, Float, Index, Integer, LargeBinary, String, Table, Text, UniqueConstraint, false

from dataproxy.store.columns import name, tenant_key, time_us
from dataproxy.store.schema.metadata import metadata

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
    Column("vaulted", Boolean, nullable=False, server_default=false()),
    Index("ix_lease_item_lease", "lease_id"),
)
"""``vaulted``: the key to its raw tokens went along."""

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

version_order = Table(
    "version_order",
    metadata,
    tenant_key(),
    name("order_id", primary=True),
    name("state", primary=True),
    name("version"),
    name("action"),
    Column("share", Float, nullable=False),
    Column("said", Text, nullable=False),
    name("key_id"),
    time_us("created_us"),
)
"""Orders about which version serves, a row for each state that one was in: waiting, begun, done, refused, withdrawn."""

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
    Column("vaulted", Boolean, nullable=False, server_default=false(), info={"absent": False}),
    Index("ix_training_use_version", "version"),
)
"""``vaulted``: the key to the trajectory's raw tokens was with the lease that it was trained by."""

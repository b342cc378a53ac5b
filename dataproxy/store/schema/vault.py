"""What is beside the record: raw tokens under keys that can be destroyed, who allowed that; witnesses' signatures; marks."""

from sqlalchemy import BigInteger, Column, Float, Index, Integer, LargeBinary, Table, Text

from dataproxy.store.columns import name, tenant_key, time_us
from dataproxy.store.schema.metadata import metadata

vault_approval = Table(
    "vault_approval",
    metadata,
    tenant_key(),
    name("approval_id", primary=True),
    name("action", primary=True),
    name("agent"),
    Column("days", Float, nullable=False),
    Column("reason", Text, nullable=False),
    name("key_id"),
    time_us("created_us"),
)
"""``action``: ask, approve, deny, revoke, a row each; ``days`` is how long a trajectory's key lives. ``agent`` "": all of them."""

vault_key = Table(
    "vault_key",
    metadata,
    tenant_key(),
    name("trajectory_id", primary=True),
    name("approval_id"),
    Column("wrapped", LargeBinary, nullable=False),
    time_us("created_us"),
    time_us("expires_us"),
    Index("ix_vault_key_expires", "expires_us"),
)
"""Sealed for the data proxy. Without its row nobody can read a trajectory's segments: deleting it is what erasure and expiry do."""

vault_segment = Table(
    "vault_segment",
    metadata,
    tenant_key(),
    name("event_id", primary=True),
    Column("choice", Integer, primary_key=True),
    name("trajectory_id"),
    Column("sealed", LargeBinary, nullable=False),
    Index("ix_vault_segment_trajectory", "tenant", "trajectory_id"),
)

cosignature = Table(
    "cosignature",
    metadata,
    tenant_key(),
    Column("size", BigInteger, primary_key=True),
    name("witness", primary=True),
    Column("signed_s", BigInteger, primary_key=True),
    Column("line", Text, nullable=False),
    time_us("added_us"),
)
"""Signatures of the checkpoint of ``size`` leaves; ``witness`` is the key's name and id, ``signed_s`` in POSIX seconds."""

review_mark = Table(
    "review_mark",
    metadata,
    tenant_key(),
    name("mark_id", primary=True),
    name("event_id"),
    name("verdict"),
    name("kind"),
    Column("path", Text, nullable=False),
    Column("start", Integer, nullable=False),
    name("surrogate"),
    Column("policy", Integer),
    Column("reason", Text, nullable=False),
    name("key_id"),
    time_us("created_us"),
    Index("ix_review_mark_event", "tenant", "event_id"),
)
"""What a reviewer said of an event's redaction; ``policy`` is the number of the policy that came of it. No value is kept."""

LOCAL = ("vault_key", "vault_segment")
"""Tables that mean nothing in another store: their keys are sealed for this machine."""

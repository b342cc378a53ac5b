"""The tables, declared once. Every key of a tenant's data leads with the tenant; times are UTC µs; "" as tenant is the operator.

What is append-only (APPEND_ONLY) is guarded by triggers. Content, tokens and salts may be deleted, by erasure alone.
"""

from dataproxy.store.schema.governance import (
    access_log,
    checkpoint,
    erasure,
    legal_hold,
    log_head,
    log_leaf,
    log_salt,
    quarantine,
    retention_policy,
    saved_view,
    tombstone,
)
from dataproxy.store.schema.learning import (
    batch,
    dead_letter,
    judgement,
    lease,
    lease_item,
    pending_reward,
    policy_version,
    policy_version_state,
    reward,
    training_use,
    version_order,
)
from dataproxy.store.schema.metadata import metadata
from dataproxy.store.schema.parties import agent, api_key, consent, key_spend, key_usage, recording_policy, redaction_policy, tenant
from dataproxy.store.schema.traffic import (
    BY_MONTH,
    content,
    content_span,
    conversation_end,
    eligibility,
    event,
    event_span,
    journal_offset,
    redaction_count,
    session,
    token_segment,
    trajectory,
)
from dataproxy.store.schema.vault import LOCAL, cosignature, review_mark, vault_approval, vault_key, vault_segment

__all__ = [
    "APPEND_ONLY",
    "BY_MONTH",
    "LOCAL",
    "SHARED",
    "access_log",
    "agent",
    "api_key",
    "batch",
    "checkpoint",
    "consent",
    "content",
    "content_span",
    "conversation_end",
    "cosignature",
    "dead_letter",
    "eligibility",
    "erasure",
    "event",
    "event_span",
    "journal_offset",
    "judgement",
    "key_spend",
    "key_usage",
    "lease",
    "lease_item",
    "legal_hold",
    "log_head",
    "log_leaf",
    "log_salt",
    "metadata",
    "pending_reward",
    "policy_version",
    "policy_version_state",
    "quarantine",
    "recording_policy",
    "redaction_count",
    "redaction_policy",
    "retention_policy",
    "review_mark",
    "reward",
    "saved_view",
    "session",
    "tenant",
    "token_segment",
    "tombstone",
    "training_use",
    "trajectory",
    "vault_approval",
    "vault_key",
    "vault_segment",
    "version_order",
]

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
    "vault_approval",
    "cosignature",
    "review_mark",
    "version_order",
)
"""Tables whose rows are never updated or deleted, but that erasure blanks the erased parts of ``event`` and ``reward``."""

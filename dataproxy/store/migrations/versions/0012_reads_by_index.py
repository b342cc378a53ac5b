"""Audits, searches and the drain's look-ups cost what they find, however much is stored."""

from alembic import op

revision = "0012"
down_revision = "0011"

_INDEXES = {
    "ix_event_id": ("event", ["event_id"]),
    "ix_event_tenant_position": ("event", ["tenant", "position"]),
    "ix_event_agent": ("event", ["tenant", "agent", "position"]),
    "ix_event_started": ("event", ["tenant", "started_us", "position"]),
    "ix_access_log_event": ("access_log", ["event_id"]),
    "ix_access_log_reader": ("access_log", ["key_id", "tenant", "event_id"]),
    "ix_access_log_target": ("access_log", ["target", "tenant", "event_id"]),
    "ix_quarantine_event": ("quarantine", ["event_id"]),
}


def upgrade() -> None:
    """An id alone, a tenant's order of storing, an agent's, a span of time; of reads: by id, by reader, by what was read."""
    for name, (table, columns) in _INDEXES.items():
        op.create_index(name, table, columns)


def downgrade() -> None:
    """Those questions look at every row again."""
    for name, (table, _) in _INDEXES.items():
        op.drop_index(name, table)

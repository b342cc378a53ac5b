"""What becomes of calls that cannot be recorded: each tenant's choice, and the gaps that a choice for service leaves in the record.

Choices are append-only, the latest holds. A gap is an event of kind ``lifecycle``: how many calls of whom, when, and why.
"""

from collections.abc import Sequence

from sqlalchemy import Connection, select

from atdp.events import Event
from atdp.ids import new_event_id
from dataproxy.client.types import Gap, RecordingPolicy
from dataproxy.ledger.rows import append_rows
from dataproxy.store.events import StoredEvent, insert_events, known_events, next_position
from dataproxy.store.schema import recording_policy


def list_recording_policies(connection: Connection, tenant: str | None) -> list[RecordingPolicy]:
    """Choices of ``tenant`` (None: of all), oldest first."""
    query = select(recording_policy).order_by(recording_policy.c.created_us, recording_policy.c.policy_id)
    if tenant is not None:
        query = query.where(recording_policy.c.tenant == tenant)
    return [RecordingPolicy(row.tenant, row.unrecorded, row.reason, row.created_us) for row in connection.execute(query)]


def served_unrecorded(connection: Connection) -> set[str]:
    """The tenants whose calls go on while they cannot be recorded."""
    latest = {policy.tenant: policy.unrecorded for policy in list_recording_policies(connection, None)}
    return {tenant for tenant, unrecorded in latest.items() if unrecorded}


def add_recording_policy(connection: Connection, policy: RecordingPolicy, key_id: str) -> None:
    """Put a choice on record, in the name of ``key_id``."""
    row = {
        "tenant": policy.tenant,
        "policy_id": new_event_id(),
        "unrecorded": policy.unrecorded,
        "reason": policy.reason,
        "key_id": key_id,
        "created_us": policy.created_us,
    }
    connection.execute(recording_policy.insert().values(row))
    append_rows(connection, recording_policy, [row])


def store_gaps(connection: Connection, gaps: Sequence[Gap]) -> int:
    """Store ``gaps`` as events; one that is stored already changes nothing. Gives the number of new ones."""
    known = known_events(connection, [gap.gap_id for gap in gaps])
    fresh = [(StoredEvent(event=_event(gap)), None) for gap in gaps if gap.gap_id not in known]
    if fresh:
        insert_events(connection, fresh, next_position(connection))
    return len(fresh)


def _event(gap: Gap) -> Event:
    return Event(
        event_id=gap.gap_id,
        tenant=gap.tenant,
        agent=gap.agent,
        kind="lifecycle",
        started_at=gap.first_us,
        ended_at=gap.last_us,
        boundary="gateway",
        y={"recording": "gap", "num_calls": gap.num_calls, "reason": gap.reason},
        m={"key_id": gap.key_id},
    )

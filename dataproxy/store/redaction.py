"""What tenants say about redaction: append-only, numbered, the highest number holds."""

import msgspec
from sqlalchemy import Connection, func, select

from atdp.ids import new_event_id
from dataproxy.ledger.rows import append_rows
from dataproxy.redact.policy import RedactionPolicy, read_policy
from dataproxy.store.schema import redaction_policy


def current_policy(connection: Connection, tenant: str) -> tuple[int, RedactionPolicy]:
    """The number of ``tenant``'s policy and the policy; (0, none of its own) where nothing is on record."""
    query = (
        select(redaction_policy.c.number, redaction_policy.c.body)
        .where(redaction_policy.c.tenant == tenant)
        .order_by(redaction_policy.c.number.desc())
        .limit(1)
    )
    row = connection.execute(query).first()
    return (0, RedactionPolicy()) if row is None else (row.number, read_policy(row.body.encode()))


def tenants_with_pseudonyms(connection: Connection) -> set[str]:
    """Those whose models see surrogates."""
    columns = (redaction_policy.c.tenant, redaction_policy.c.body)
    latest = {row.tenant: row.body for row in connection.execute(select(*columns).order_by(redaction_policy.c.number))}
    return {tenant for tenant, body in latest.items() if '"pseudonymize":true' in body and read_policy(body.encode()).pseudonymize}


def add_policy(connection: Connection, tenant: str, policy: RedactionPolicy, reason: str, key_id: str, now_us: int) -> int:
    """Put ``policy`` on record, in the name of ``key_id``; gives its number.

    Raises:
        IntegrityError: another one was put on record at the same time.
    """
    query = select(func.max(redaction_policy.c.number)).where(redaction_policy.c.tenant == tenant)
    number = (connection.execute(query).scalar() or 0) + 1
    row = {
        "tenant": tenant,
        "policy_id": new_event_id(),
        "number": number,
        "body": msgspec.json.encode(policy).decode(),
        "reason": reason,
        "key_id": key_id,
        "created_us": now_us,
    }
    connection.execute(redaction_policy.insert().values(row))
    append_rows(connection, redaction_policy, [row])
    return number

"""Destroys keys that have outlived their time or their approval, but for those on legal hold; what was destroyed is on record."""

from collections import defaultdict
from collections.abc import Sequence

from sqlalchemy import Connection, or_, select

from atdp.events import Event
from atdp.ids import new_event_id
from dataproxy.retain.holds import holds_on, list_holds
from dataproxy.retain.targets import Target, belongings
from dataproxy.store.database import Database
from dataproxy.store.events import StoredEvent, insert_events, next_position
from dataproxy.store.schema import vault_approval, vault_key
from dataproxy.vault.keys import shred


def shred_expired(database: Database, now_us: int) -> int:
    """Destroy what is due; gives the number of keys."""
    over = vault_key.c.expires_us <= now_us
    with database.read() as connection:
        if connection.execute(select(vault_key.c.tenant).limit(1)).first() is None:
            return 0
        revoked = select(vault_approval.c.approval_id).where(vault_approval.c.action == "revoke")
        columns = (vault_key.c.tenant, vault_key.c.trajectory_id, vault_key.c.expires_us)
        query = select(*columns).where(or_(over, vault_key.c.approval_id.in_(revoked)))
        due: dict[tuple[str, str], list[str]] = defaultdict(list)
        for row in connection.execute(query):
            due[row.tenant, "expired" if row.expires_us <= now_us else "revoked"].append(row.trajectory_id)
    num = 0
    for (tenant, why), names in due.items():
        with database.write() as connection:
            num += destroy(connection, tenant, names, why, now_us)[0]
    return num


def revoke_keys(connection: Connection, tenant: str, approval_id: str, now_us: int) -> tuple[int, int]:
    """Destroy the keys that lived by an approval; gives how many are gone, and how many a hold keeps."""
    mine = (vault_key.c.tenant == tenant, vault_key.c.approval_id == approval_id)
    names = list(connection.execute(select(vault_key.c.trajectory_id).where(*mine)).scalars())
    return destroy(connection, tenant, names, "revoked", now_us)


def destroy(connection: Connection, tenant: str, trajectory_ids: Sequence[str], why: str, now_us: int) -> tuple[int, int]:
    """Destroy the keys of trajectories that no hold is on; gives how many are gone, and how many stay."""
    held = _held(connection, tenant, trajectory_ids)
    gone = [name for name in trajectory_ids if name not in held]
    num = shred(connection, tenant, gone)
    if num:
        written = Event(
            event_id=new_event_id(),
            tenant=tenant,
            agent="",
            kind="lifecycle",
            started_at=now_us,
            ended_at=now_us,
            boundary="api",
            a={"vault": "destroyed", "why": why, "trajectories": gone},
        )
        insert_events(connection, [(StoredEvent(event=written), None)], next_position(connection))
    return num, len(held)


def _held(connection: Connection, tenant: str, trajectory_ids: Sequence[str]) -> set[str]:
    holds = list_holds(connection, tenant)
    if not holds:
        return set()
    found = {name: belongings(connection, Target(tenant, "trajectory", name)) for name in trajectory_ids}
    return {name for name, belonging in found.items() if holds_on(holds, tenant, belonging)}

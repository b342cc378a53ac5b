"""Keys of trajectories: made when the first exchange is sealed, wrapped for the data proxy, destroyed for good."""

import os
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from sqlalchemy import Connection, delete, select

from dataproxy.capture.sealing import seal, unseal
from dataproxy.client.vaulted import KEY_SIZE
from dataproxy.store.dialect import insert_all
from dataproxy.store.schema import vault_key, vault_segment

_CHUNK = 500
_DAY_US = 86_400_000_000


@dataclass(slots=True, frozen=True)
class StoredKey:
    """A key as it lies in the store."""

    trajectory_id: str
    approval_id: str
    wrapped: bytes
    expires_us: int


def make_key(
    connection: Connection, public: bytes, tenant: str, trajectory_id: str, approval: tuple[str, float], now_us: int
) -> bytes:
    """A new key for ``trajectory_id``, 32 bytes, stored wrapped for the holder of ``public``'s private half.

    ``approval``: its id, and the days that the key lives.
    """
    key = os.urandom(KEY_SIZE)
    approval_id, days = approval
    row = {"tenant": tenant, "trajectory_id": trajectory_id, "approval_id": approval_id, "created_us": now_us}
    wrapped = seal(public, key, _context(tenant, trajectory_id))
    insert_all(connection, vault_key, [row | {"wrapped": wrapped, "expires_us": now_us + int(days * _DAY_US)}])
    return key


def unwrap(private: bytes, tenant: str, stored: StoredKey) -> bytes:
    """The key.

    Raises:
        KeyUnusable: another data proxy's, or the row was changed.
    """
    return unseal(private, stored.wrapped, _context(tenant, stored.trajectory_id))


def stored_keys(connection: Connection, tenant: str, trajectory_ids: Iterable[str]) -> dict[str, StoredKey]:
    """Trajectory → its key, of those that have one."""
    found: dict[str, StoredKey] = {}
    for chunk in _chunks(sorted(set(trajectory_ids))):
        columns = (vault_key.c.trajectory_id, vault_key.c.approval_id, vault_key.c.wrapped, vault_key.c.expires_us)
        query = select(*columns).where(vault_key.c.tenant == tenant, vault_key.c.trajectory_id.in_(chunk))
        found |= {row.trajectory_id: StoredKey(*row) for row in connection.execute(query)}
    return found


def shred(connection: Connection, tenant: str, trajectory_ids: Collection[str]) -> int:
    """Destroy keys and what they open; gives the number of keys. Purge the database afterwards."""
    num = 0
    for chunk in _chunks(sorted(trajectory_ids)):
        for table in (vault_segment, vault_key):
            gone = connection.execute(delete(table).where(table.c.tenant == tenant, table.c.trajectory_id.in_(chunk)))
            num += gone.rowcount if table is vault_key else 0
    return num


def _context(tenant: str, trajectory_id: str) -> bytes:
    return f"vault\0{tenant}\0{trajectory_id}".encode()


def _chunks(items: Sequence[str]) -> Iterable[Sequence[str]]:
    return (items[start : start + _CHUNK] for start in range(0, len(items), _CHUNK))

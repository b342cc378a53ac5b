"""Policy versions and batch manifests: what trained what, and which version serves. State changes append to a history."""

import msgspec
from sqlalchemy import Connection, func, select

from atdp.samples import BatchManifest
from atdp.versions import PolicyVersion
from dataproxy.errors import NotFound
from dataproxy.ledger.rows import append_rows
from dataproxy.store.dialect import insert_all, upsert
from dataproxy.store.keys import OPERATOR
from dataproxy.store.schema import batch, policy_version, policy_version_state


def register_version(connection: Connection, version: PolicyVersion, key_id: str, now_us: int) -> None:
    """Put ``version`` on record. If it serves now, the one that served is retired."""
    if version.state == "serving":
        for other in list_versions(connection):
            if other.state == "serving" and other.version != version.version:
                _write(connection, msgspec.structs.replace(other, state="retired"), key_id, now_us)
    _write(connection, version, key_id, now_us)


def _write(connection: Connection, version: PolicyVersion, key_id: str, now_us: int) -> None:
    row = policy_version
    where = (row.c.tenant == OPERATOR, row.c.version == version.version)
    before = connection.execute(select(row.c.state).where(*where)).scalar()
    body = msgspec.json.encode(version)
    values = {
        "tenant": OPERATOR,
        "version": version.version,
        "state": version.state,
        "created_us": version.created_us,
        "body": body,
    }
    upsert(connection, policy_version, values)
    if before != version.state:
        position = (connection.execute(select(func.max(policy_version_state.c.position))).scalar() or 0) + 1
        history = {"tenant": OPERATOR, "position": position, "version": version.version, "state": version.state}
        stored = history | {"key_id": key_id, "changed_us": now_us}
        connection.execute(policy_version_state.insert().values(stored))
        append_rows(connection, policy_version_state, [stored])


def list_versions(connection: Connection) -> list[PolicyVersion]:
    """All versions, oldest name first."""
    query = select(policy_version.c.body).order_by(policy_version.c.version)
    return [msgspec.json.decode(body, type=PolicyVersion) for body in connection.execute(query).scalars()]


def get_version(connection: Connection, name: str) -> PolicyVersion:
    """One version.

    Raises:
        NotFound: there is none of that name.
    """
    body = connection.execute(select(policy_version.c.body).where(policy_version.c.version == name)).scalar()
    if body is None:
        raise NotFound(f"no version {name}; `headrace versions` lists them")
    return msgspec.json.decode(body, type=PolicyVersion)


def serving_version(connection: Connection) -> PolicyVersion:
    """The version that serves.

    Raises:
        NotFound: none is on record as serving.
    """
    body = connection.execute(select(policy_version.c.body).where(policy_version.c.state == "serving")).scalar()
    if body is None:
        raise NotFound("no version serves yet")
    return msgspec.json.decode(body, type=PolicyVersion)


def store_batch(connection: Connection, manifest: BatchManifest, owner: str = OPERATOR) -> None:
    """Keep ``manifest`` as ``owner``'s, the tenant whose trainer sends it; the same batch id again changes nothing."""
    row = {
        "tenant": owner,
        "batch_id": manifest.batch_id,
        "lease_id": manifest.lease_id,
        "version": manifest.version,
        "created_us": manifest.created_us,
        "body": msgspec.json.encode(manifest),
    }
    mine = (batch.c.tenant == owner, batch.c.batch_id == manifest.batch_id)
    if connection.execute(select(batch.c.batch_id).where(*mine)).first() is None:
        insert_all(connection, batch, [row])
        append_rows(connection, batch, [row])


def get_batch(connection: Connection, batch_id: str, tenant: str | None = None) -> BatchManifest:
    """A stored manifest of ``tenant`` (None: anybody's, the operator's first).

    Raises:
        NotFound: there is none of that id.
    """
    query = select(batch.c.body).where(batch.c.batch_id == batch_id).order_by(batch.c.tenant).limit(1)
    body = connection.execute(query if tenant is None else query.where(batch.c.tenant == tenant)).scalar()
    if body is None and tenant is not None:
        raise NotFound(
            f"no batch {batch_id} of this tenant's own trainer; one that may hold several tenants' trajectories is shown to "
            "operators alone, and the page of the version that was made of it shows each tenant its own"
        )
    if body is None:
        raise NotFound(f"no batch {batch_id}")
    return msgspec.json.decode(body, type=BatchManifest)


def manifest_of(connection: Connection, version: PolicyVersion) -> BatchManifest | None:
    """The manifest of the batch that ``version`` was made of; None where it names none, or none is stored."""
    try:
        return get_batch(connection, version.batch_id) if version.batch_id else None
    except NotFound:
        return None

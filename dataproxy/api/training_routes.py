"""Leases, batches and policy versions: the trainer's side. What is lent, and who looks at a batch, is on record first."""

from collections import Counter

import msgspec
from fastapi import APIRouter, Response
from sqlalchemy import Connection

from atdp.faults import point
from atdp.samples import BatchManifest, Lease
from atdp.versions import PolicyVersion, version_index
from dataproxy.api.answers import json_answer, msgpack_answer, parse
from dataproxy.api.identity import Body, Caller, ServicesDep, require, require_operator, scope
from dataproxy.api.on_record import Purpose, put_on_record, unrecorded
from dataproxy.client.types import KeyInfo, LeaseAck, LeaseRequest
from dataproxy.errors import Refused
from dataproxy.lease.leases import ack_lease, grant_lease, renew_lease
from dataproxy.store import versions
from dataproxy.store.access import record_access
from dataproxy.store.version_history import lent_by, rebuild
from dataproxy.vault.lend import Lending

router = APIRouter(prefix="/v1")
_OF_VERSIONS = "what gateways, the trainer and the keeper ask at every poll: names and states of versions, and what steps measured"


class Renewal(msgspec.Struct, frozen=True):
    """How long from now."""

    ttl_s: float


@router.post("/leases")
def post_lease(services: ServicesDep, caller: Caller, body: Body) -> Response:
    """Lend trajectories, or show what would be lent; msgpack. That they go, and each opening of the vault, is on record first."""
    require(caller, "trainer")
    request = parse(body, LeaseRequest)
    if request.max_trajectories < 1 or request.ttl_s <= 0 or request.max_reuse < 1 or request.max_staleness < 0:
        raise Refused("max_trajectories, ttl_s and max_reuse must be positive, max_staleness not negative")
    tenant = request.tenant if scope(caller) is None else caller.tenant
    with services.database.write() as connection:
        now_us = services.now_us()  # among writers: a reward that it sees is not younger, one that it does not see not older
        vault = Lending(caller, services.vault_private, now_us) if caller.role == "trainer" else None
        lease = grant_lease(connection, request, caller.tenant, caller.key_id, tenant, now_us, services.settle_s, vault)
        _record_loan(connection, caller, lease, now_us)
    if lease.samples:
        point("dataproxy.after_lease")
    return msgpack_answer(lease)


def _record_loan(connection: Connection, caller: KeyInfo, lease: Lease, now_us: int) -> None:
    """Each owner's log says how many of its trajectories go to ``caller``, by which lease; which they are, the lease's own rows."""
    for owner, num in sorted(Counter(sample.tenant for sample in lease.samples).items()):
        why = f"training, {num} {'trajectory' if num == 1 else 'trajectories'}"
        record_access(connection, caller, owner, "lease", lease.lease_id or "preview", now_us, why)


@router.post("/leases/{lease_id}/renew")
def post_renewal(services: ServicesDep, caller: Caller, lease_id: str, body: Body) -> Response:
    """Move a deadline."""
    require(caller, "trainer")
    ttl_s = parse(body, Renewal).ttl_s
    with services.database.write() as connection:
        deadline_us = renew_lease(connection, caller.tenant, lease_id, ttl_s, services.now_us())
    return json_answer({"deadline_us": deadline_us})


@router.post("/leases/{lease_id}/ack")
def post_ack(services: ServicesDep, caller: Caller, lease_id: str, body: Body) -> Response:
    """End a lease."""
    require(caller, "trainer")
    ack = parse(body, LeaseAck)
    with services.database.write() as connection:
        ack_lease(connection, caller.tenant, lease_id, ack, services.now_us())
        point("dataproxy.mid_ack")
    point("dataproxy.after_ack")
    return json_answer({"lease_id": lease_id, "outcome": ack.outcome})


@router.post("/batches")
def post_batch(services: ServicesDep, caller: Caller, body: Body) -> Response:
    """Keep a manifest."""
    require(caller, "trainer")
    manifest = parse(body, BatchManifest)
    with services.database.write() as connection:
        versions.store_batch(connection, manifest, caller.tenant)
    return json_answer({"batch_id": manifest.batch_id})


@router.get("/batches/{batch_id}")
def get_batch(services: ServicesDep, caller: Caller, purpose: Purpose, batch_id: str) -> Response:
    """A manifest; that of a batch that mixed tenants is the operator's alone."""
    require(caller, "trainer", "reviewer")
    with services.database.read() as connection:
        manifest = versions.get_batch(connection, batch_id, scope(caller))
        owners = lent_by(connection, scope(caller), manifest.lease_id) or {caller.tenant}
    put_on_record(services, caller, owners, "batch", batch_id, purpose)
    return json_answer(manifest)


@router.get("/batches/{batch_id}/rebuilt")
def get_rebuilt(services: ServicesDep, caller: Caller, purpose: Purpose, batch_id: str) -> Response:
    """The batch again, from the rewards that had come by then."""
    require(caller, "trainer", "reviewer")
    with services.database.read() as connection:
        manifest = versions.get_batch(connection, batch_id, scope(caller))
        owners = lent_by(connection, scope(caller), manifest.lease_id) or {caller.tenant}
        rebuilt = rebuild(connection, manifest, scope(caller))
    put_on_record(services, caller, owners, "batch", batch_id, purpose)
    return json_answer(rebuilt)


@router.post("/versions")
def post_version(services: ServicesDep, caller: Caller, body: Body) -> Response:
    """Put a version or its new state on record."""
    require(caller, "trainer")
    require_operator(caller)
    version = parse(body, PolicyVersion)
    version_index(version.version)
    with services.database.write() as connection:
        versions.register_version(connection, version, caller.key_id, services.now_us())
    return json_answer({"version": version.version, "state": version.state})


@router.get("/versions")
@unrecorded(_OF_VERSIONS)
def get_versions(services: ServicesDep, caller: Caller) -> Response:
    """All versions."""
    require(caller, "trainer", "reviewer", "gateway")
    with services.database.read() as connection:
        return json_answer([shown(caller, version) for version in versions.list_versions(connection)])


@router.get("/versions/serving")
@unrecorded(_OF_VERSIONS)
def get_serving(services: ServicesDep, caller: Caller) -> Response:
    """The version that serves."""
    require(caller, "trainer", "reviewer", "gateway")
    with services.database.read() as connection:
        return json_answer(shown(caller, versions.serving_version(connection)))


@router.get("/versions/{name}")
@unrecorded(_OF_VERSIONS)
def get_version(services: ServicesDep, caller: Caller, name: str) -> Response:
    """One version."""
    require(caller, "trainer", "reviewer", "gateway")
    with services.database.read() as connection:
        return json_answer(shown(caller, versions.get_version(connection, name)))


def shown(caller: KeyInfo, version: PolicyVersion) -> PolicyVersion:
    """What a version learned from, and how well it did at it, comes from every tenant; a tenant sees its name and state."""
    return version if scope(caller) is None else msgspec.structs.replace(version, directory="", batch_id=None, metrics={})

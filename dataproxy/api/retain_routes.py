"""Erasure, legal holds and retention: what is kept, and what is not."""

import msgspec
from fastapi import APIRouter, Response

from dataproxy.api.answers import json_answer, parse
from dataproxy.api.identity import Body, Caller, ServicesDep, require, scope
from dataproxy.api.on_record import Purpose, put_list_on_record, put_on_record
from dataproxy.client.review_types import Erasure, ErasureRequest, HoldRelease, LegalHold, Retention
from dataproxy.client.types import KeyInfo
from dataproxy.errors import NotFound, Refused
from dataproxy.retain.erase import erase, foresee, plan_erasure
from dataproxy.retain.holds import add_hold, find_hold, list_holds, release_hold
from dataproxy.retain.retention import list_retention, set_retention
from dataproxy.retain.targets import resolve
from dataproxy.services import Services
from dataproxy.store.parties import require_known

router = APIRouter(prefix="/v1")


@router.post("/erasure")
def post_erasure(services: ServicesDep, caller: Caller, body: Body, purpose: Purpose) -> Response:
    """Erase a subject, a session or a trajectory; or say what that would do, which is a read, by a person's pseudonym."""
    require(caller)
    request = parse(body, ErasureRequest)
    tenant = _own(caller, request.tenant)
    if not request.reason:
        raise Refused("an erasure needs a `reason`; it is kept")
    reason = _redacted(services, tenant, request.reason)
    with services.database.read() as connection:
        target = resolve(connection, tenant, request.scope, request.target, services.digests(tenant))
        plan = plan_erasure(connection, target)
    if request.dry_run:
        put_on_record(services, caller, [tenant], "erasure preview", f"{target.scope}:{target.name}", purpose or reason)
        with services.database.read() as connection:
            return json_answer(foresee(connection, plan, reason))
    with services.database.write() as connection:
        done = erase(connection, plan, reason, caller.key_id, services.now_us())
    services.checkpoints.cut()
    return json_answer(_purged(services, done))


@router.get("/holds")
def get_holds(services: ServicesDep, caller: Caller, purpose: Purpose, released: bool = False) -> Response:
    """Holds in force, oldest first; with those that ended."""
    require(caller, "reviewer")
    with services.database.read() as connection:
        holds = list_holds(connection, scope(caller), released)
    put_list_on_record(services, caller, holds, "holds", purpose)
    return json_answer(holds)


@router.post("/holds")
def post_hold(services: ServicesDep, caller: Caller, body: Body) -> Response:
    """Put a hold on something."""
    require(caller, "reviewer")
    hold = parse(body, LegalHold)
    tenant = _own(caller, hold.tenant)
    hold = LegalHold(tenant, hold.scope, hold.target, _redacted(services, tenant, hold.reason))
    with services.database.write() as connection:
        require_known(connection, tenant, hold.target if hold.scope == "agent" else "")
        if hold.scope in ("subject", "session", "trajectory"):
            target = resolve(connection, tenant, hold.scope, hold.target, services.digests(tenant))
            hold = LegalHold(tenant, hold.scope, target.name, hold.reason)
        return json_answer(add_hold(connection, hold, caller.key_id, services.now_us()))


@router.post("/holds/{hold_id}/release")
def post_release(services: ServicesDep, caller: Caller, hold_id: str, body: Body) -> Response:
    """End a hold."""
    require(caller)
    given = parse(body, HoldRelease).reason
    if not given:
        raise Refused("the end of a hold needs a `reason`; it is kept")
    with services.database.read() as connection:
        owner = find_hold(connection, scope(caller), hold_id).tenant
    reason = _redacted(services, owner, given)
    with services.database.write() as connection:
        return json_answer(release_hold(connection, owner, hold_id, reason, caller.key_id, services.now_us()))


@router.get("/retention")
def get_retention(services: ServicesDep, caller: Caller, purpose: Purpose) -> Response:
    """Every word on record, oldest first."""
    require(caller, "reviewer")
    with services.database.read() as connection:
        said = list_retention(connection, scope(caller))
    put_list_on_record(services, caller, said, "retention", purpose)
    return json_answer(said)


@router.post("/retention")
def post_retention(services: ServicesDep, caller: Caller, body: Body) -> Response:
    """Say how long a tenant's or an agent's trajectories are kept."""
    require(caller)
    given = parse(body, Retention)
    tenant = _own(caller, given.tenant)
    said = (given.name, given.days, _redacted(services, tenant, given.reason), given.agent)
    item = Retention(tenant, *said, services.now_us(), caller.key_id)
    with services.database.write() as connection:
        require_known(connection, tenant, item.agent)
        set_retention(connection, item, caller.key_id, item.created_us)
    return json_answer(item)


def _own(caller: KeyInfo, tenant: str) -> str:
    """The tenant that the caller speaks of; another's is not there."""
    if not tenant:
        raise Refused("say whose with `tenant`")
    if scope(caller) not in (None, tenant):
        raise NotFound(f"no tenant {tenant}")
    return tenant


def _redacted(services: Services, tenant: str, text: str) -> str:
    return services.redactors.of(tenant).redact_text(text).text if text else ""


def _purged(services: Services, done: Erasure) -> Erasure:
    return msgspec.structs.replace(done, purged=services.database.purge(at_once=True))

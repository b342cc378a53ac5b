"""Keys, consent, status: what an operator does, and the table that gateways poll."""

import msgspec
from fastapi import APIRouter, Response
from sqlalchemy import Connection

from dataproxy.alarms.watch import look
from dataproxy.api.answers import json_answer, parse
from dataproxy.api.identity import Body, Caller, ServicesDep, require, require_operator, scope
from dataproxy.api.on_record import Purpose, put_list_on_record, unrecorded
from dataproxy.client.types import Consent, KeyInfo, KeyLimits, NewKey
from dataproxy.digests import KeyedDigests
from dataproxy.errors import NotAllowed, NotFound, Refused
from dataproxy.lease.windows import Now, count_places
from dataproxy.retain.targets import known_session
from dataproxy.store.access import record_access
from dataproxy.store.consents import ConsentBook, add_consent, is_internal, list_consents
from dataproxy.store.dead_letters import count_dead
from dataproxy.store.judgements import count_judgements
from dataproxy.store.keys import issue_key, key_table, list_keys, revoke_key, set_limits
from dataproxy.store.parties import agent_of_session, require_known
from dataproxy.store.recording import served_unrecorded
from dataproxy.store.redaction import tenants_with_pseudonyms
from dataproxy.store.scope import EVERYBODY
from dataproxy.store.statistics import read_status

router = APIRouter(prefix="/v1")


@router.get("/status")
@unrecorded("counts over everything, for whoever looks after the machine")
def get_status(services: ServicesDep, caller: Caller) -> Response:
    """Counts over everything; a tenant's own to its admin."""
    require(caller, "gateway", "trainer")
    tenant = scope(caller)
    backlog = services.drain.backlog_bytes() if tenant is None else 0  # the journal is everybody's
    with services.database.read() as connection:
        status = read_status(connection, backlog, tenant)
        places = count_places(connection, Now(services.now_us(), services.settle_s), tenant)
        judgements, _, judge_usd = count_judgements(connection, tenant)
        dead, alarms = count_dead(connection, tenant), look(connection, tenant, services.now_us())
    counts = {"dead_letters": dead, "judgements": judgements, "judge_usd": judge_usd}
    return json_answer(msgspec.structs.replace(status, places=places, alarms=alarms, **counts))


@router.get("/keys/table")
@unrecorded("what each gateway asks every second: which keys are valid, by their hashes, and what they may")
def get_key_table(services: ServicesDep, caller: Caller) -> Response:
    """What a gateway caches."""
    require(caller, "gateway")
    require_operator(caller)
    with services.database.read() as connection:
        unrecorded, pseudonymized = served_unrecorded(connection), tenants_with_pseudonyms(connection)
        return json_answer(key_table(connection, ConsentBook.read(connection), unrecorded, pseudonymized))


@router.get("/keys")
def get_keys(services: ServicesDep, caller: Caller, purpose: Purpose) -> Response:
    """All keys without their hashes."""
    require(caller)
    with services.database.read() as connection:
        keys = [key for key in list_keys(connection) if scope(caller) in (None, key.tenant)]
    put_list_on_record(services, caller, keys, "keys", purpose)
    return json_answer(keys)


@router.post("/keys")
def post_key(services: ServicesDep, caller: Caller, body: Body) -> Response:
    """Issue a key, on record; its text is in this answer only."""
    require(caller)
    new = parse(body, NewKey)
    if not new.tenant or (new.role == "agent" and not new.agent):
        raise Refused("a key needs a `tenant`, and an agent's key the `agent` too")
    if scope(caller) not in (None, new.tenant):
        raise Refused("a tenant's admin makes keys of that tenant only")
    if is_internal(new.agent) and scope(caller) is not None:
        raise NotAllowed(f"calls of {new.agent} would be the system's own, out of every count: an operator issues its key")
    with services.database.write() as connection:
        issued = issue_key(connection, new, services.now_us())
        record_access(connection, caller, new.tenant, "key made", issued.key_id, services.now_us())
    with services.database.read(EVERYBODY) as connection:
        services.keys.load(connection)
    return json_answer(issued)


@router.delete("/keys/{key_id}")
def delete_key(services: ServicesDep, caller: Caller, key_id: str) -> Response:
    """Revoke a key, on record."""
    require(caller)
    with services.database.write() as connection:
        owner = _own(connection, caller, key_id)
        revoke_key(connection, key_id, services.now_us())
        record_access(connection, caller, owner, "key revoked", key_id, services.now_us())
    with services.database.read(EVERYBODY) as connection:
        services.keys.load(connection)
    return json_answer({"key_id": key_id, "revoked": True})


@router.put("/keys/{key_id}/limits")
def put_limits(services: ServicesDep, caller: Caller, key_id: str, body: Body) -> Response:
    """Replace what a key may use, on record; gateways hold it to that within a poll."""
    require(caller)
    limits = parse(body, KeyLimits)
    with services.database.write() as connection:
        owner = _own(connection, caller, key_id)
        set_limits(connection, key_id, limits)
        record_access(connection, caller, owner, "key limited", key_id, services.now_us())
    with services.database.read(EVERYBODY) as connection:
        services.keys.load(connection)
    with services.database.read() as connection:
        return json_answer(next(key for key in list_keys(connection) if key.key_id == key_id))


def _own(connection: Connection, caller: KeyInfo, key_id: str) -> str:
    """The tenant of the key ``key_id``; raise NotFound unless there is one that the caller may change."""
    for key in list_keys(connection):
        if key.key_id == key_id and scope(caller) in (None, key.tenant):
            return key.tenant
    raise NotFound(f"no key {key_id}; `headrace keys list` lists them")


@router.post("/consent")
def post_consent(services: ServicesDep, caller: Caller, body: Body, must_exist: bool = False) -> Response:
    """Put a consent on record; it holds from now on. ``must_exist``: of a tenant and agent that are known already."""
    require(caller)
    given = parse(body, Consent)
    if not given.tenant or not given.reason:
        raise Refused("a consent needs a `tenant` and a `reason`")
    if scope(caller) not in (None, given.tenant):
        raise Refused("a tenant's admin consents for that tenant only")
    item = msgspec.structs.replace(given, created_us=services.now_us(), key_id=caller.key_id)
    with services.database.write() as connection:
        if must_exist or given.session_id:
            require_known(connection, given.tenant, given.agent)
        if given.session_id:
            item = _of_session(connection, item, services.digests(given.tenant))
        add_consent(connection, item, caller.key_id)
    return json_answer(item)


def _of_session(connection: Connection, item: Consent, digests: KeyedDigests) -> Consent:
    """``item`` by the session's own id, and with the agent that it is of."""
    if not item.recording:
        raise Refused("a session is known only once it is recorded: withdraw its training, or erase it (`headrace audit erase`)")
    session_id = known_session(connection, item.tenant, item.session_id, digests)
    return msgspec.structs.replace(item, session_id=session_id, agent=agent_of_session(connection, item.tenant, session_id))


@router.get("/consent")
def get_consent(services: ServicesDep, caller: Caller, purpose: Purpose) -> Response:
    """Every consent on record, oldest first."""
    require(caller, "reviewer")
    with services.database.read() as connection:
        consents = list_consents(connection, scope(caller))
    put_list_on_record(services, caller, consents, "consents", purpose)
    return json_answer(consents)

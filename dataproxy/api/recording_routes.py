"""Calls that cannot be recorded: what each tenant wants done with them, and the gaps that gateways report."""

from fastapi import APIRouter, Response

from dataproxy.api.answers import json_answer, parse
from dataproxy.api.identity import Body, Caller, ServicesDep, require, require_operator, scope
from dataproxy.api.on_record import Purpose, put_list_on_record
from dataproxy.client.types import Gap, RecordingPolicy
from dataproxy.errors import Refused
from dataproxy.store.recording import add_recording_policy, list_recording_policies, store_gaps

router = APIRouter(prefix="/v1")


@router.post("/recording")
def post_policy(services: ServicesDep, caller: Caller, body: Body) -> Response:
    """Put a tenant's choice on record; gateways follow within a poll."""
    require(caller)
    given = parse(body, RecordingPolicy)
    if not given.tenant or not given.reason:
        raise Refused("a recording policy needs a `tenant` and a `reason`")
    if scope(caller) not in (None, given.tenant):
        raise Refused("a tenant's admin chooses for that tenant only")
    policy = RecordingPolicy(given.tenant, given.unrecorded, given.reason, services.now_us())
    with services.database.write() as connection:
        add_recording_policy(connection, policy, caller.key_id)
    return json_answer(policy)


@router.get("/recording")
def get_policies(services: ServicesDep, caller: Caller, purpose: Purpose) -> Response:
    """Every choice on record, oldest first."""
    require(caller, "reviewer")
    with services.database.read() as connection:
        policies = list_recording_policies(connection, scope(caller))
    put_list_on_record(services, caller, policies, "recording", purpose)
    return json_answer(policies)


@router.post("/gaps")
def post_gaps(services: ServicesDep, caller: Caller, body: Body) -> Response:
    """Keep gaps; the same one again changes nothing."""
    require(caller, "gateway")
    require_operator(caller)
    gaps = parse(body, list[Gap])
    with services.database.write() as connection:
        return json_answer({"stored": store_gaps(connection, gaps)})

"""What a tenant says about redaction: shown, set, and tried out on a text."""

from typing import Annotated, Any

import msgspec
from fastapi import APIRouter, Query, Response

from dataproxy.api.answers import json_answer, parse
from dataproxy.api.identity import Body, Caller, ServicesDep, require, scope
from dataproxy.api.on_record import Purpose, put_on_record
from dataproxy.client.types import KeyInfo, RedactionSet, RedactionShown, RedactionTest
from dataproxy.digests import tenant_key
from dataproxy.errors import Refused
from dataproxy.redact import InvalidPolicy, Redactor
from dataproxy.redact.allowed import allow_digest
from dataproxy.redact.policy import RedactionPolicy, check_names, read_policy, sealed
from dataproxy.services import Services
from dataproxy.store.redaction import add_policy, current_policy

router = APIRouter(prefix="/v1/redaction")
_LONGEST_TEXT = 200_000


@router.get("")
def get_policy(services: ServicesDep, caller: Caller, purpose: Purpose, tenant: Annotated[str, Query()] = "") -> Response:
    """The tenant's policy and its number; exact values that may stay are shown as digests."""
    require(caller, "reviewer")
    owner = _owner(caller, tenant)
    with services.database.read() as connection:
        number, policy = current_policy(connection, owner)
    put_on_record(services, caller, [owner], "redaction", "", purpose)
    return json_answer(RedactionShown(owner, number, msgspec.to_builtins(policy)))


@router.put("")
def put_policy(services: ServicesDep, caller: Caller, body: Body) -> Response:
    """Put a policy on record; it holds for what is drained from now on."""
    require(caller)
    given = parse(body, RedactionSet)
    owner = _owner(caller, given.tenant)
    if not given.reason:
        raise Refused("a redaction policy needs a `reason`")
    policy = checked(services, owner, given.policy)
    with services.database.write() as connection:
        number = add_policy(connection, owner, policy, given.reason, caller.key_id, services.now_us())
    services.renew(owner)
    return json_answer(RedactionShown(owner, number, msgspec.to_builtins(policy)))


@router.post("/test")
def post_test(services: ServicesDep, caller: Caller, body: Body) -> Response:
    """What would become of a text, under the policy that holds or one that is only tried. Nothing is stored."""
    require(caller)
    given = parse(body, RedactionTest)
    owner = _owner(caller, given.tenant)
    if len(given.text) > _LONGEST_TEXT:
        raise Refused(f"the text has {len(given.text)} characters; at most {_LONGEST_TEXT} are taken")
    if given.policy is not None:
        redactor = _try(services, owner, checked(services, owner, given.policy))
        redacted = redactor.redact_text(given.text)
    else:
        redacted = services.redactors.of(owner).redact_text(given.text)
    return json_answer({"text": redacted.text, "spans": redacted.spans})


def checked(services: Services, owner: str, given: dict[str, Any]) -> RedactionPolicy:
    """The policy as it is kept, every pattern compiled once to see that it can be.

    Raises:
        Refused: it cannot be used; the message says why.
    """
    try:
        policy = read_policy(given)
        check_names(policy)
        redactor = _try(services, owner, policy)
    except InvalidPolicy as error:
        raise Refused(str(error)) from error
    return sealed(policy, lambda value: allow_digest(value, redactor.digest))


def _try(services: Services, owner: str, policy: RedactionPolicy) -> Redactor:
    return Redactor(tenant_key(services.tenant_secret, owner), 0, None, policy=policy)


def _owner(caller: KeyInfo, tenant: str) -> str:
    """The tenant that is meant: the caller's own unless an operator names one.

    Raises:
        Refused: an operator names none, or somebody names another than their own.
    """
    own = scope(caller)
    if own is None and not tenant:
        raise Refused("name the `tenant`")
    if own is not None and tenant not in ("", own):
        raise Refused("a tenant's key sees and sets that tenant's redaction only")
    return own or tenant

"""Approvals of the vault: asked for by one person, decided by another, on record."""

from typing import Literal

from fastapi import APIRouter, Response

from dataproxy.api.answers import json_answer, parse
from dataproxy.api.identity import Body, Caller, ServicesDep, require, scope
from dataproxy.api.on_record import Purpose, put_list_on_record
from dataproxy.client.types import KeyInfo
from dataproxy.client.vault_types import VaultAsk, VaultRevoked, VaultWord
from dataproxy.errors import NotFound, Refused
from dataproxy.services import Services
from dataproxy.store.parties import require_known
from dataproxy.vault.approvals import ask_approval, decide_approval, find_approval, list_approvals
from dataproxy.vault.shred import revoke_keys

router = APIRouter(prefix="/v1/vault/approvals")


@router.get("")
def get_approvals(services: ServicesDep, caller: Caller, purpose: Purpose) -> Response:
    """Every request and what became of it, oldest first."""
    require(caller, "reviewer")
    with services.database.read() as connection:
        approvals = list_approvals(connection, scope(caller))
    put_list_on_record(services, caller, approvals, "approvals", purpose)
    return json_answer(approvals)


@router.post("")
def post_approval(services: ServicesDep, caller: Caller, body: Body) -> Response:
    """Ask; nothing is kept before somebody else approves."""
    require(caller, "reviewer")
    given = parse(body, VaultAsk)
    if not given.tenant:
        raise Refused("say whose raw tokens with `tenant`")
    if scope(caller) not in (None, given.tenant):
        raise NotFound(f"no tenant {given.tenant}")
    ask = VaultAsk(given.tenant, given.days, _redacted(services, given.tenant, given.reason), given.agent)
    with services.database.write() as connection:
        require_known(connection, ask.tenant, ask.agent)
        return json_answer(ask_approval(connection, ask, caller.key_id, services.now_us()))


@router.post("/{approval_id}/{action}")
def post_decision(
    services: ServicesDep, caller: Caller, approval_id: str, action: Literal["approve", "deny", "revoke"], body: Body
) -> Response:
    """Approve, deny or revoke. Revoking destroys the keys, but for what is on legal hold."""
    require(caller, "reviewer")
    word = parse(body, VaultWord).reason
    if not word:
        raise Refused("a decision needs a `reason`; it is kept")
    with services.database.read() as connection:
        owner = find_approval(connection, scope(caller), approval_id).tenant
    reason = _redacted(services, owner, word)
    return json_answer(decide(services, caller, owner, approval_id, action, reason))


def decide(services: Services, caller: KeyInfo, owner: str, approval_id: str, action: str, reason: str) -> object:
    """What became of it. ``reason`` is redacted.

    Raises:
        NotFound: there is no such request. Refused: it was decided before. NotAllowed: the caller asked for it.
    """
    now_us = services.now_us()
    if action == "approve":
        _require_keys(services)
    with services.database.write() as connection:
        decided = decide_approval(connection, find_approval(connection, owner, approval_id), action, reason, caller, now_us)
        if action != "revoke":
            return decided
        destroyed, held = revoke_keys(connection, owner, approval_id, now_us)
        decided = find_approval(connection, owner, approval_id)
    services.database.purge(at_once=True)
    return VaultRevoked(decided, destroyed, held)


def _require_keys(services: Services) -> None:
    """Raise Refused unless there is something to wrap keys for."""
    try:
        services.vault_private()
    except FileNotFoundError as error:
        raise Refused("the vault has no keys in the configuration directory yet; start Headrace anew with `headrace up`") from error


def _redacted(services: Services, tenant: str, text: str) -> str:
    return services.redactors.of(tenant).redact_text(text).text if text else ""

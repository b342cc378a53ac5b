"""Approvals on record: who asked for raw tokens to be kept, who of the others agreed, and whether that still holds."""

from collections.abc import Iterable
from typing import Any

from sqlalchemy import Connection, func, select

from atdp.ids import new_event_id
from dataproxy.client.types import KeyInfo
from dataproxy.client.vault_types import ApprovalState, VaultApproval, VaultAsk
from dataproxy.errors import NotAllowed, NotFound, Refused
from dataproxy.ledger.rows import append_rows
from dataproxy.store.schema import vault_approval, vault_key

_STATES: dict[str, ApprovalState] = {"ask": "waiting", "approve": "approved", "deny": "denied", "revoke": "revoked"}
_MOST_DAYS = 3650.0


class ApprovalBook:
    """All approvals at one moment."""

    def __init__(self, approvals: Iterable[VaultApproval]) -> None:
        """``approvals`` oldest first."""
        in_force = [approval for approval in approvals if approval.state == "approved"]
        self._by_scope = {(approval.tenant, approval.agent): approval for approval in in_force}
        self.ids = frozenset(approval.approval_id for approval in in_force)
        """Of those in force."""

    @classmethod
    def read(cls, connection: Connection) -> "ApprovalBook":
        """As the store has them now."""
        return cls(list_approvals(connection, None, counted=False))

    def of(self, tenant: str, agent: str) -> VaultApproval | None:
        """The one in force for ``agent``: its own, or its tenant's."""
        return self._by_scope.get((tenant, agent)) or self._by_scope.get((tenant, ""))


def list_approvals(connection: Connection, tenant: str | None, counted: bool = True) -> list[VaultApproval]:
    """Approvals of ``tenant`` (None: of all), oldest first; with the number of keys if ``counted``."""
    query = select(vault_approval).order_by(vault_approval.c.created_us, vault_approval.c.approval_id)
    rows = connection.execute(query if tenant is None else query.where(vault_approval.c.tenant == tenant)).mappings().all()
    if not rows:
        return []
    keys: dict[str, int] = {}
    if counted:
        num = select(vault_key.c.approval_id, func.count()).group_by(vault_key.c.approval_id)
        keys = {row[0]: row[1] for row in connection.execute(num)}
    words: dict[tuple[str, str], dict[str, Any]] = {}
    for row in rows:
        words.setdefault((row["tenant"], row["approval_id"]), {})[row["action"]] = row
    return [_approval(said, keys.get(approval_id, 0)) for (_, approval_id), said in words.items() if "ask" in said]


def ask_approval(connection: Connection, ask: VaultAsk, key_id: str, now_us: int) -> VaultApproval:
    """Put a request on record; nothing is kept before somebody else approves.

    Raises:
        Refused: a field is missing, or the days are none.
    """
    if not ask.reason or not 0 < ask.days <= _MOST_DAYS:
        raise Refused(f"a request needs a `reason` and `days` above 0 and up to {_MOST_DAYS:g}")
    approval_id = f"vault-{new_event_id()}"
    _write(connection, ask.tenant, approval_id, "ask", ask.agent, ask.days, ask.reason, key_id, now_us)
    return find_approval(connection, ask.tenant, approval_id)


def decide_approval(
    connection: Connection, approval: VaultApproval, action: str, reason: str, caller: KeyInfo, now_us: int
) -> VaultApproval:
    """Put ``action`` of approve, deny or revoke on record.

    Raises:
        NotAllowed: who asked may not approve.
        Refused: it has been decided already.
    """
    wanted = ("waiting",) if action in ("approve", "deny") else ("waiting", "approved")
    if approval.state not in wanted:
        raise Refused(f"{approval.approval_id} is {approval.state}; `headrace vault list` shows what waits")
    if action == "approve" and caller.key_id == approval.asked_by:
        raise NotAllowed("another person must approve: a reviewer's or an admin's key that is not the one which asked")
    _write(connection, approval.tenant, approval.approval_id, action, approval.agent, approval.days, reason, caller.key_id, now_us)
    return find_approval(connection, approval.tenant, approval.approval_id)


def find_approval(connection: Connection, tenant: str | None, approval_id: str) -> VaultApproval:
    """One of ``tenant``'s (None: of anybody's).

    Raises:
        NotFound: there is none.
    """
    found = next((one for one in list_approvals(connection, tenant) if one.approval_id == approval_id), None)
    if found is None:
        raise NotFound(f"no request {approval_id}; `headrace vault list` lists them")
    return found


def _approval(said: dict[str, Any], num_keys: int) -> VaultApproval:
    asked = said["ask"]
    last = next((action for action in ("revoke", "deny", "approve") if action in said), "ask")
    decided = said[last] if last != "ask" else None
    return VaultApproval(
        tenant=asked["tenant"],
        approval_id=asked["approval_id"],
        agent=asked["agent"],
        days=asked["days"],
        reason=asked["reason"],
        state=_STATES[last],
        asked_by=asked["key_id"],
        decided_by=decided["key_id"] if decided else "",
        created_us=asked["created_us"],
        decided_us=decided["created_us"] if decided else None,
        num_keys=num_keys,
    )


def _write(
    connection: Connection,
    tenant: str,
    approval_id: str,
    action: str,
    agent: str,
    days: float,
    reason: str,
    key_id: str,
    now_us: int,
) -> None:
    row: dict[str, Any] = {"tenant": tenant, "approval_id": approval_id, "action": action, "agent": agent, "days": days}
    row |= {"reason": reason, "key_id": key_id, "created_us": now_us}
    connection.execute(vault_approval.insert().values(row))
    append_rows(connection, vault_approval, [row])

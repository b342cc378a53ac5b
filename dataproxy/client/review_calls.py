"""The reviewer's calls, as data (see ``calls``)."""

import msgspec

from dataproxy.client.calls import Call
from dataproxy.client.review_types import (
    AccessPage,
    CosignatureAdded,
    CosignatureKept,
    Erasure,
    ErasureRequest,
    HoldRelease,
    LegalHold,
    Retention,
    SearchRequest,
)
from dataproxy.client.types import EventPage
from dataproxy.client.vault_types import ReviewMark, ReviewMarked, ReviewPage, VaultApproval, VaultAsk, VaultRevoked, VaultWord

_encode = msgspec.json.encode


def access_log(limit: int, after: str | None, reader: str | None, target: str | None) -> Call[AccessPage]:
    given = {"limit": limit, "after": after, "reader": reader, "target": target}
    params = {name: value for name, value in given.items() if value is not None}
    return Call("GET", "/v1/audit/log", msgspec.json.Decoder(AccessPage).decode, params=params)


def search(request: SearchRequest) -> Call[EventPage]:
    params = {name: value for name, value in msgspec.structs.asdict(request).items() if value is not None}
    return Call("GET", "/v1/audit/search", msgspec.json.Decoder(EventPage).decode, params=params)


def erase(request: ErasureRequest) -> Call[Erasure]:
    return Call("POST", "/v1/erasure", msgspec.json.Decoder(Erasure).decode, _encode(request))


def list_holds(released: bool) -> Call[list[LegalHold]]:
    return Call("GET", "/v1/holds", msgspec.json.Decoder(list[LegalHold]).decode, params={"released": int(released)})


def add_hold(hold: LegalHold) -> Call[LegalHold]:
    return Call("POST", "/v1/holds", msgspec.json.Decoder(LegalHold).decode, _encode(hold))


def release_hold(hold_id: str, reason: str) -> Call[LegalHold]:
    path = f"/v1/holds/{hold_id}/release"
    return Call("POST", path, msgspec.json.Decoder(LegalHold).decode, _encode(HoldRelease(reason)))


def list_retention() -> Call[list[Retention]]:
    return Call("GET", "/v1/retention", msgspec.json.Decoder(list[Retention]).decode)


def set_retention(item: Retention) -> Call[Retention]:
    return Call("POST", "/v1/retention", msgspec.json.Decoder(Retention).decode, _encode(item))


def witness_request(tenant: str, old: int) -> Call[str]:
    return Call("GET", "/v1/audit/witness", bytes.decode, params={"tenant": tenant, "old": old})


def add_cosignature(added: CosignatureAdded) -> Call[CosignatureKept]:
    return Call("POST", "/v1/audit/witness", msgspec.json.Decoder(CosignatureKept).decode, _encode(added))


def list_approvals() -> Call[list[VaultApproval]]:
    return Call("GET", "/v1/vault/approvals", msgspec.json.Decoder(list[VaultApproval]).decode)


def ask_approval(ask: VaultAsk) -> Call[VaultApproval]:
    return Call("POST", "/v1/vault/approvals", msgspec.json.Decoder(VaultApproval).decode, _encode(ask))


def decide_approval(approval_id: str, action: str, reason: str) -> Call[VaultApproval]:
    path = f"/v1/vault/approvals/{approval_id}/{action}"
    return Call("POST", path, msgspec.json.Decoder(VaultApproval).decode, _encode(VaultWord(reason)))


def revoke_approval(approval_id: str, reason: str) -> Call[VaultRevoked]:
    path = f"/v1/vault/approvals/{approval_id}/revoke"
    return Call("POST", path, msgspec.json.Decoder(VaultRevoked).decode, _encode(VaultWord(reason)))


def list_review(why: str, after: str, limit: int) -> Call[ReviewPage]:
    params: dict[str, str | int] = {"why": why, "after": after, "limit": limit}
    return Call("GET", "/v1/review", msgspec.json.Decoder(ReviewPage).decode, params=params)


def mark_event(event_id: str, mark: ReviewMark) -> Call[ReviewMarked]:
    return Call("POST", f"/v1/review/{event_id}", msgspec.json.Decoder(ReviewMarked).decode, _encode(mark))

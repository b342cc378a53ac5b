"""The reviewer's calls, as data (see ``calls``)."""

import msgspec

from dataproxy.client.calls import Call
from dataproxy.client.review_types import (
    AccessPage,
    Erasure,
    ErasureRequest,
    HoldRelease,
    LegalHold,
    Retention,
    SearchRequest,
)
from dataproxy.client.types import EventPage

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

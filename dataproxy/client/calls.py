"""Each call of the API as data: method, path, body, and how to read the answer. Both clients send these."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import httpx
import msgspec

from atdp.samples import BatchManifest, Lease
from atdp.versions import PolicyVersion
from dataproxy.client.errors import ServerFailed, from_status
from dataproxy.client.order_types import OrderAsk, OrderStep, VersionOrder
from dataproxy.client.trajectory_types import TrajectoryPage, TrajectoryQuery
from dataproxy.client.types import (
    Consent,
    EventDetail,
    EventPage,
    Feedback,
    FeedbackReceipt,
    IssuedKey,
    KeyInfo,
    KeyLimits,
    KeyRow,
    LeaseAck,
    LeaseRequest,
    NewKey,
    Quarantined,
    QuarantineOpened,
    QuarantineRetried,
    QuarantineRetry,
    RecordingPolicy,
    RedactionSet,
    RedactionShown,
    RedactionTest,
    RedactionTried,
    Status,
    TrajectoryDetail,
    VersionRewards,
)

T = TypeVar("T")


@dataclass(slots=True, frozen=True)
class Call(Generic[T]):
    """One request and the decoder of its answer; ``key`` replaces the client's own key when given."""

    method: str
    path: str
    decode: Callable[[bytes], T]
    body: bytes | None = None
    params: dict[str, str | int] | None = None
    key: str | None = None


def read(call: Call[T], response: httpx.Response) -> T:
    """The decoded answer.

    Raises:
        DataProxyClientError: the data proxy refused, or answered something that is not its own.
    """
    if response.status_code >= 400:
        raise from_status(response.status_code, *_reason(response))
    try:
        return call.decode(response.content)
    except msgspec.DecodeError as error:
        raise ServerFailed(f"the data proxy's answer to {call.path} is not understood: {error}", response.status_code) from error


def _reason(response: httpx.Response) -> tuple[str, str]:
    try:
        error = msgspec.json.decode(response.content, type=dict[str, dict[str, Any]])["error"]
        return str(error["message"]), str(error["code"])
    except (msgspec.DecodeError, KeyError):
        return f"HTTP {response.status_code}", ""


def _json(type_: type[T]) -> Callable[[bytes], T]:
    return msgspec.json.Decoder(type_).decode


def _nothing(_: bytes) -> None:
    return None


_encode = msgspec.json.encode


def health() -> Call[dict[str, str]]:
    return Call("GET", "/health", _json(dict[str, str]))


def status() -> Call[Status]:
    return Call("GET", "/v1/status", _json(Status))


def key_table() -> Call[list[KeyRow]]:
    return Call("GET", "/v1/keys/table", _json(list[KeyRow]))


def create_key(key: NewKey) -> Call[IssuedKey]:
    return Call("POST", "/v1/keys", _json(IssuedKey), _encode(key))


def list_keys() -> Call[list[KeyInfo]]:
    return Call("GET", "/v1/keys", _json(list[KeyInfo]))


def revoke_key(key_id: str) -> Call[None]:
    return Call("DELETE", f"/v1/keys/{key_id}", _nothing)


def limit_key(key_id: str, limits: KeyLimits) -> Call[KeyInfo]:
    return Call("PUT", f"/v1/keys/{key_id}/limits", _json(KeyInfo), _encode(limits))


def set_redaction(policy: RedactionSet) -> Call[RedactionShown]:
    return Call("PUT", "/v1/redaction", _json(RedactionShown), _encode(policy))


def get_redaction(tenant: str) -> Call[RedactionShown]:
    return Call("GET", "/v1/redaction", _json(RedactionShown), params={"tenant": tenant} if tenant else None)


def test_redaction(test: RedactionTest) -> Call[RedactionTried]:
    return Call("POST", "/v1/redaction/test", _json(RedactionTried), _encode(test))


def list_quarantine(reason: str, limit: int) -> Call[list[Quarantined]]:
    return Call("GET", "/v1/quarantine", _json(list[Quarantined]), params={"reason": reason, "limit": limit})


def open_quarantine(event_id: str) -> Call[QuarantineOpened]:
    return Call("GET", f"/v1/quarantine/{event_id}", _json(QuarantineOpened))


def retry_quarantine(which: QuarantineRetry) -> Call[QuarantineRetried]:
    return Call("POST", "/v1/quarantine/retry", _json(QuarantineRetried), _encode(which))


def set_consent(consent: Consent, must_exist: bool = False) -> Call[Consent]:
    return Call("POST", "/v1/consent", _json(Consent), _encode(consent), params={"must_exist": int(must_exist)})


def list_consent() -> Call[list[Consent]]:
    return Call("GET", "/v1/consent", _json(list[Consent]))


def set_recording(policy: RecordingPolicy) -> Call[RecordingPolicy]:
    return Call("POST", "/v1/recording", _json(RecordingPolicy), _encode(policy))


def list_recording() -> Call[list[RecordingPolicy]]:
    return Call("GET", "/v1/recording", _json(list[RecordingPolicy]))


def feedback(item: Feedback, key: str | None) -> Call[FeedbackReceipt]:
    return Call("POST", "/v1/feedback", _json(FeedbackReceipt), _encode(item), key=key)


def lease(request: LeaseRequest) -> Call[Lease]:
    return Call("POST", "/v1/leases", msgspec.msgpack.Decoder(Lease).decode, _encode(request))


def renew_lease(lease_id: str, ttl_s: float) -> Call[dict[str, int]]:
    return Call("POST", f"/v1/leases/{lease_id}/renew", _json(dict[str, int]), _encode({"ttl_s": ttl_s}))


def ack_lease(lease_id: str, ack: LeaseAck) -> Call[None]:
    return Call("POST", f"/v1/leases/{lease_id}/ack", _nothing, _encode(ack))


def store_batch(manifest: BatchManifest) -> Call[None]:
    return Call("POST", "/v1/batches", _nothing, _encode(manifest))


def get_batch(batch_id: str) -> Call[BatchManifest]:
    return Call("GET", f"/v1/batches/{batch_id}", _json(BatchManifest))


def register_version(version: PolicyVersion) -> Call[None]:
    return Call("POST", "/v1/versions", _nothing, _encode(version))


def list_versions() -> Call[list[PolicyVersion]]:
    return Call("GET", "/v1/versions", _json(list[PolicyVersion]))


def get_version(version: str) -> Call[PolicyVersion]:
    return Call("GET", f"/v1/versions/{version}", _json(PolicyVersion))


def serving_version() -> Call[PolicyVersion]:
    return Call("GET", "/v1/versions/serving", _json(PolicyVersion))


def order_version(ask: OrderAsk) -> Call[VersionOrder]:
    return Call("POST", "/v1/version-orders", _json(VersionOrder), _encode(ask))


def list_version_orders(limit: int) -> Call[list[VersionOrder]]:
    return Call("GET", "/v1/version-orders", _json(list[VersionOrder]), params={"limit": limit})


def move_version_order(order_id: str, step: str, said: str) -> Call[VersionOrder]:
    return Call("POST", f"/v1/version-orders/{order_id}/{step}", _json(VersionOrder), _encode(OrderStep(said)))


def list_events(limit: int, after: int | None, session: str | None, kind: str | None) -> Call[EventPage]:
    params: dict[str, str | int] = {"limit": limit}
    params |= {name: value for name, value in (("after", after), ("session", session), ("kind", kind)) if value is not None}
    return Call("GET", "/v1/events", _json(EventPage), params=params)


def get_event(event_id: str) -> Call[EventDetail]:
    return Call("GET", f"/v1/events/{event_id}", _json(EventDetail))


def list_trajectories(query: TrajectoryQuery, after: str, limit: int) -> Call[TrajectoryPage]:
    params: dict[str, str | int] = {"query": msgspec.json.encode(query).decode(), "after": after, "limit": limit}
    return Call("GET", "/v1/trajectories", _json(TrajectoryPage), params=params)


def get_trajectory(trajectory_id: str) -> Call[TrajectoryDetail]:
    return Call("GET", f"/v1/trajectories/{trajectory_id}", _json(TrajectoryDetail))


def reward_stats() -> Call[list[VersionRewards]]:
    return Call("GET", "/v1/stats/rewards", _json(list[VersionRewards]))

"""The blocking client. One per process; close it, or use it as a context manager. Each method may raise DataProxyClientError."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar
from urllib.parse import quote

import httpx

from atdp.exports.types import ExportedEvent, ExportedTrajectory
from atdp.samples import BatchManifest, Lease
from atdp.versions import PolicyVersion
from dataproxy.client import calls
from dataproxy.client.errors import Unavailable
from dataproxy.client.exporting import Export, ExportQuery, open_export
from dataproxy.client.order_types import OrderAsk, VersionOrder
from dataproxy.client.trajectory_types import TrajectoryPage, TrajectoryQuery
from dataproxy.client.transfer import open_tenant_export, pieces_of, send_tenant
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
    TenantImported,
    TrajectoryDetail,
    VersionRewards,
)

T = TypeVar("T")


class SyncDataProxyClient:
    """Calls the data proxy on ``socket_path`` with ``key``; ``timeout_s`` bounds each call.

    ``purpose`` says why, and is put on record with whatever is read.
    """

    def __init__(self, socket_path: Path, key: str, timeout_s: float = 10.0, purpose: str = "") -> None:
        transport = httpx.HTTPTransport(uds=str(socket_path), verify=False)
        headers = {"authorization": f"Bearer {key}", "x-headrace-purpose": quote(purpose)}
        self._http = httpx.Client(transport=transport, base_url="http://dataproxy", headers=headers, timeout=timeout_s)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def export_events(self, query: ExportQuery) -> AbstractContextManager[Export[ExportedEvent]]:
        """Events as a stream; the read is itself recorded."""
        return open_export(self._http, "events", ExportedEvent, query)

    def export_trajectories(self, query: ExportQuery) -> AbstractContextManager[Export[ExportedTrajectory]]:
        """Trajectories as a stream; the read is itself recorded."""
        return open_export(self._http, "trajectories", ExportedTrajectory, query)

    def export_tenant(self, tenant: str) -> AbstractContextManager[tuple[int, Iterator[bytes]]]:
        """(rows, about; bytes) of a tenant's file; the read is itself recorded."""
        return open_tenant_export(self._http, tenant)

    def import_tenant(self, file: Path, signed_by: str = "", on_sent: Callable[[int], None] = lambda _: None) -> TenantImported:
        """Store a tenant's file; ``signed_by`` is the foreign ledger's public key (hex) that it may be signed with."""
        return send_tenant(self._http, pieces_of(file, on_sent), signed_by)

    def _send(self, call: calls.Call[T]) -> T:
        headers = {"authorization": f"Bearer {call.key}"} if call.key is not None else None
        try:
            response = self._http.request(call.method, call.path, content=call.body, params=call.params, headers=headers)
        except httpx.TransportError as error:
            raise Unavailable(f"the data proxy does not answer ({error!r}); is it running?") from error
        return calls.read(call, response)

    def health(self) -> dict[str, str]:
        """Whether the data proxy serves; needs no key."""
        return self._send(calls.health())

    def status(self) -> Status:
        """Counts of everything it holds."""
        return self._send(calls.status())

    def key_table(self) -> list[KeyRow]:
        """Every key's hash and rights, for the gateway's cache."""
        return self._send(calls.key_table())

    def create_key(self, key: NewKey) -> IssuedKey:
        """Issue a key; it is shown this once."""
        return self._send(calls.create_key(key))

    def list_keys(self) -> list[KeyInfo]:
        """All keys, without their hashes."""
        return self._send(calls.list_keys())

    def revoke_key(self, key_id: str) -> None:
        """Revoke a key, for good."""
        self._send(calls.revoke_key(key_id))

    def limit_key(self, key_id: str, limits: KeyLimits) -> KeyInfo:
        """Replace what a key may use."""
        return self._send(calls.limit_key(key_id, limits))

    def set_redaction(self, policy: RedactionSet) -> RedactionShown:
        """Put a redaction policy on record; it holds for what is drained from now on."""
        return self._send(calls.set_redaction(policy))

    def get_redaction(self, tenant: str = "") -> RedactionShown:
        """The tenant's redaction policy; exact values that may stay are digests in it."""
        return self._send(calls.get_redaction(tenant))

    def test_redaction(self, test: RedactionTest) -> RedactionTried:
        """What redaction makes of a text. Nothing is stored."""
        return self._send(calls.test_redaction(test))

    def list_quarantine(self, reason: str = "", limit: int = 100) -> list[Quarantined]:
        """What lies in the quarantine, newest first."""
        return self._send(calls.list_quarantine(reason, limit))

    def open_quarantine(self, event_id: str) -> QuarantineOpened:
        """Open one row, on record; no text of it is returned."""
        return self._send(calls.open_quarantine(event_id))

    def retry_quarantine(self, which: QuarantineRetry) -> QuarantineRetried:
        """Govern rows again and store those that can be, on record."""
        return self._send(calls.retry_quarantine(which))

    def set_consent(self, consent: Consent, must_exist: bool = False) -> Consent:
        """Put a consent on record; ``created_us`` is the data proxy's. ``must_exist``: refuse an unknown tenant or agent."""
        return self._send(calls.set_consent(consent, must_exist))

    def list_consent(self) -> list[Consent]:
        """Every consent on record, oldest first."""
        return self._send(calls.list_consent())

    def set_recording(self, policy: RecordingPolicy) -> RecordingPolicy:
        """Say what becomes of a tenant's calls that cannot be recorded; ``created_us`` is the data proxy's."""
        return self._send(calls.set_recording(policy))

    def list_recording(self) -> list[RecordingPolicy]:
        """Every such choice on record, oldest first."""
        return self._send(calls.list_recording())

    def feedback(self, item: Feedback, key: str | None = None) -> FeedbackReceipt:
        """Reward something; with ``key``, in the name of that key's holder."""
        return self._send(calls.feedback(item, key))

    def lease(self, request: LeaseRequest) -> Lease:
        """Trajectories to train on; may be empty."""
        return self._send(calls.lease(request))

    def renew_lease(self, lease_id: str, ttl_s: float) -> dict[str, int]:
        """Move the deadline to ``ttl_s`` seconds from now; gives ``deadline_us``."""
        return self._send(calls.renew_lease(lease_id, ttl_s))

    def ack_lease(self, lease_id: str, ack: LeaseAck) -> None:
        """End a lease: trained, or returned."""
        self._send(calls.ack_lease(lease_id, ack))

    def store_batch(self, manifest: BatchManifest) -> None:
        """Keep a batch manifest, before the step that consumes it."""
        self._send(calls.store_batch(manifest))

    def get_batch(self, batch_id: str) -> BatchManifest:
        """A stored batch manifest."""
        return self._send(calls.get_batch(batch_id))

    def register_version(self, version: PolicyVersion) -> None:
        """Put a version, or its new state, on record. A version that serves retires the one before."""
        self._send(calls.register_version(version))

    def list_versions(self) -> list[PolicyVersion]:
        """All versions, oldest first."""
        return self._send(calls.list_versions())

    def get_version(self, version: str) -> PolicyVersion:
        """One version by name."""
        return self._send(calls.get_version(version))

    def serving_version(self) -> PolicyVersion:
        """The version that serves."""
        return self._send(calls.serving_version())

    def order_version(self, ask: OrderAsk) -> VersionOrder:
        """Order that a version serves, everybody or a share; the keeper carries it out."""
        return self._send(calls.order_version(ask))

    def list_version_orders(self, limit: int = 50) -> list[VersionOrder]:
        """The newest orders first."""
        return self._send(calls.list_version_orders(limit))

    def move_version_order(self, order_id: str, step: str, said: str = "") -> VersionOrder:
        """A step of an order: begin, done, refuse, withdraw."""
        return self._send(calls.move_version_order(order_id, step, said))

    def list_events(
        self,
        limit: int = 50,
        after: int | None = None,
        session: str | None = None,
        kind: str | None = None,
    ) -> EventPage:
        """A page of events; the read is itself recorded."""
        return self._send(calls.list_events(limit, after, session, kind))

    def get_event(self, event_id: str) -> EventDetail:
        """One event with its tokens; the read is itself recorded."""
        return self._send(calls.get_event(event_id))

    def list_trajectories(self, query: TrajectoryQuery | None = None, after: str | None = None, limit: int = 50) -> TrajectoryPage:
        """A page of trajectories that ``query`` asks for, newest start first; the read is itself recorded."""
        return self._send(calls.list_trajectories(query or TrajectoryQuery(), after or "", limit))

    def get_trajectory(self, trajectory_id: str) -> TrajectoryDetail:
        """One trajectory; the read is itself recorded."""
        return self._send(calls.get_trajectory(trajectory_id))

    def reward_stats(self) -> list[VersionRewards]:
        """Rewards by the policy version of the last sampled token."""
        return self._send(calls.reward_stats())

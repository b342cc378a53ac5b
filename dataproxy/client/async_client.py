"""The async client. One per process; close it, or use it as a context manager. Each method may raise DataProxyClientError."""

from pathlib import Path
from types import TracebackType
from typing import TypeVar

import httpx

from atdp.samples import BatchManifest, Lease
from atdp.versions import PolicyVersion
from dataproxy.client import calls
from dataproxy.client.errors import Unavailable
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


class DataProxyClient:
    """Calls the data proxy on ``socket_path`` with ``key``; ``timeout_s`` bounds each call."""

    def __init__(self, socket_path: Path, key: str, timeout_s: float = 10.0) -> None:
        transport = httpx.AsyncHTTPTransport(uds=str(socket_path), verify=False)
        headers = {"authorization": f"Bearer {key}"}
        self._http = httpx.AsyncClient(transport=transport, base_url="http://dataproxy", headers=headers, timeout=timeout_s)

    async def __aenter__(self) -> "DataProxyClient":
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def _send(self, call: calls.Call[T]) -> T:
        headers = {"authorization": f"Bearer {call.key}"} if call.key is not None else None
        try:
            response = await self._http.request(call.method, call.path, content=call.body, params=call.params, headers=headers)
        except httpx.TransportError as error:
            raise Unavailable(f"the data proxy does not answer ({error!r}); is it running?") from error
        return calls.read(call, response)

    async def health(self) -> dict[str, str]:
        """Whether the data proxy serves; needs no key."""
        return await self._send(calls.health())

    async def status(self) -> Status:
        """Counts of everything it holds."""
        return await self._send(calls.status())

    async def key_table(self) -> list[KeyRow]:
        """Every key's hash and rights, for the gateway's cache."""
        return await self._send(calls.key_table())

    async def create_key(self, key: NewKey) -> IssuedKey:
        """Issue a key; it is shown this once."""
        return await self._send(calls.create_key(key))

    async def list_keys(self) -> list[KeyInfo]:
        """All keys, without their hashes."""
        return await self._send(calls.list_keys())

    async def revoke_key(self, key_id: str) -> None:
        """Revoke a key, for good."""
        await self._send(calls.revoke_key(key_id))

    async def limit_key(self, key_id: str, limits: KeyLimits) -> KeyInfo:
        """Replace what a key may use."""
        return await self._send(calls.limit_key(key_id, limits))

    async def set_redaction(self, policy: RedactionSet) -> RedactionShown:
        """Put a redaction policy on record; it holds for what is drained from now on."""
        return await self._send(calls.set_redaction(policy))

    async def get_redaction(self, tenant: str = "") -> RedactionShown:
        """The tenant's redaction policy; exact values that may stay are digests in it."""
        return await self._send(calls.get_redaction(tenant))

    async def test_redaction(self, test: RedactionTest) -> RedactionTried:
        """What redaction makes of a text. Nothing is stored."""
        return await self._send(calls.test_redaction(test))

    async def list_quarantine(self, reason: str = "", limit: int = 100) -> list[Quarantined]:
        """What lies in the quarantine, newest first."""
        return await self._send(calls.list_quarantine(reason, limit))

    async def open_quarantine(self, event_id: str) -> QuarantineOpened:
        """Open one row, on record; no text of it is returned."""
        return await self._send(calls.open_quarantine(event_id))

    async def retry_quarantine(self, which: QuarantineRetry) -> QuarantineRetried:
        """Govern rows again and store those that can be, on record."""
        return await self._send(calls.retry_quarantine(which))

    async def set_consent(self, consent: Consent) -> Consent:
        """Put a consent on record; ``created_us`` is the data proxy's."""
        return await self._send(calls.set_consent(consent))

    async def list_consent(self) -> list[Consent]:
        """Every consent on record, oldest first."""
        return await self._send(calls.list_consent())

    async def set_recording(self, policy: RecordingPolicy) -> RecordingPolicy:
        """Say what becomes of a tenant's calls that cannot be recorded; ``created_us`` is the data proxy's."""
        return await self._send(calls.set_recording(policy))

    async def list_recording(self) -> list[RecordingPolicy]:
        """Every such choice on record, oldest first."""
        return await self._send(calls.list_recording())

    async def feedback(self, item: Feedback, key: str | None = None) -> FeedbackReceipt:
        """Reward something; with ``key``, in the name of that key's holder."""
        return await self._send(calls.feedback(item, key))

    async def lease(self, request: LeaseRequest) -> Lease:
        """Trajectories to train on; may be empty."""
        return await self._send(calls.lease(request))

    async def renew_lease(self, lease_id: str, ttl_s: float) -> dict[str, int]:
        """Move the deadline to ``ttl_s`` seconds from now; gives ``deadline_us``."""
        return await self._send(calls.renew_lease(lease_id, ttl_s))

    async def ack_lease(self, lease_id: str, ack: LeaseAck) -> None:
        """End a lease: trained, or returned."""
        await self._send(calls.ack_lease(lease_id, ack))

    async def store_batch(self, manifest: BatchManifest) -> None:
        """Keep a batch manifest, before the step that consumes it."""
        await self._send(calls.store_batch(manifest))

    async def get_batch(self, batch_id: str) -> BatchManifest:
        """A stored batch manifest."""
        return await self._send(calls.get_batch(batch_id))

    async def register_version(self, version: PolicyVersion) -> None:
        """Put a version, or its new state, on record. A version that serves retires the one before."""
        await self._send(calls.register_version(version))

    async def list_versions(self) -> list[PolicyVersion]:
        """All versions, oldest first."""
        return await self._send(calls.list_versions())

    async def get_version(self, version: str) -> PolicyVersion:
        """One version by name."""
        return await self._send(calls.get_version(version))

    async def serving_version(self) -> PolicyVersion:
        """The version that serves."""
        return await self._send(calls.serving_version())

    async def list_events(
        self,
        limit: int = 50,
        after: int | None = None,
        session: str | None = None,
        kind: str | None = None,
    ) -> EventPage:
        """A page of events; the read is itself recorded."""
        return await self._send(calls.list_events(limit, after, session, kind))

    async def get_event(self, event_id: str) -> EventDetail:
        """One event with its tokens; the read is itself recorded."""
        return await self._send(calls.get_event(event_id))

    async def list_trajectories(
        self, query: TrajectoryQuery | None = None, after: str | None = None, limit: int = 50
    ) -> TrajectoryPage:
        """A page of trajectories that ``query`` asks for, newest start first; the read is itself recorded."""
        return await self._send(calls.list_trajectories(query or TrajectoryQuery(), after or "", limit))

    async def get_trajectory(self, trajectory_id: str) -> TrajectoryDetail:
        """One trajectory; the read is itself recorded."""
        return await self._send(calls.get_trajectory(trajectory_id))

    async def reward_stats(self) -> list[VersionRewards]:
        """Rewards by the policy version of the last sampled token."""
        return await self._send(calls.reward_stats())

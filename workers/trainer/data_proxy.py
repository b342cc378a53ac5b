"""The data proxy as the trainer sees it: a source of samples and a register of versions.

Owns two protocols, which `SyncDataProxyClient` satisfies as it is, and the patience with a data proxy that is down for a moment.
All calls may be repeated: a lease whose answer was lost returns by its deadline. Not owned: HTTP (`dataproxy.client`).
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Final, Protocol, TypeVar

from atdp.samples import BatchManifest, Lease
from atdp.versions import PolicyVersion
from dataproxy.client import Unavailable
from dataproxy.client.types import LeaseAck, LeaseRequest

T = TypeVar("T")

PATIENCE_S: Final = 120.0

logger = logging.getLogger(__name__)


class SampleSource(Protocol):
    """Where trajectories come from. Every method may raise DataProxyClientError."""

    def lease(self, request: LeaseRequest) -> Lease:
        """Trajectories to train on; may be empty."""
        ...

    def renew_lease(self, lease_id: str, ttl_s: float) -> dict[str, int]:
        """Move the deadline; BadRequest or NotFound when the lease has ended."""
        ...

    def ack_lease(self, lease_id: str, ack: LeaseAck) -> None:
        """End a lease; may be repeated, and may come late."""
        ...

    def store_batch(self, manifest: BatchManifest) -> None:
        """Keep a manifest; may be repeated."""
        ...


class VersionRegister(Protocol):
    """The record of policy versions. Every method may raise DataProxyClientError."""

    def register_version(self, version: PolicyVersion) -> None:
        """Put a version or its new state on record; one that serves retires the one before."""
        ...

    def list_versions(self) -> list[PolicyVersion]:
        """All versions, oldest first."""
        ...

    def get_version(self, version: str) -> PolicyVersion:
        """One version; NotFound."""
        ...

    def serving_version(self) -> PolicyVersion:
        """The version that serves; NotFound before the first."""
        ...


class DataProxy(SampleSource, VersionRegister, Protocol):
    """Both."""


class PatientDataProxy:
    """Repeats a call while the data proxy does not answer, for `patience_s` at most; other errors pass through."""

    def __init__(self, client: DataProxy, patience_s: float = PATIENCE_S, sleep: Callable[[float], None] = time.sleep) -> None:
        self._client = client
        self._patience_s = patience_s
        self._sleep = sleep

    def _persist(self, call: Callable[[], T]) -> T:
        pause_s, waited_s = 0.1, 0.0
        while True:
            try:
                answer = call()
            except Unavailable as error:
                if waited_s >= self._patience_s:
                    raise
                if not waited_s:
                    logger.warning("waiting up to %g s for the data proxy: %s", self._patience_s, error)
            else:
                if waited_s:
                    logger.info("the data proxy answers again after %.1f s", waited_s)
                return answer
            self._sleep(pause_s)
            waited_s += pause_s
            pause_s = min(2 * pause_s, 2.0)

    def lease(self, request: LeaseRequest) -> Lease:
        """As SampleSource."""
        return self._persist(lambda: self._client.lease(request))

    def renew_lease(self, lease_id: str, ttl_s: float) -> dict[str, int]:
        """As SampleSource."""
        return self._persist(lambda: self._client.renew_lease(lease_id, ttl_s))

    def ack_lease(self, lease_id: str, ack: LeaseAck) -> None:
        """As SampleSource."""
        self._persist(lambda: self._client.ack_lease(lease_id, ack))

    def store_batch(self, manifest: BatchManifest) -> None:
        """As SampleSource."""
        self._persist(lambda: self._client.store_batch(manifest))

    def register_version(self, version: PolicyVersion) -> None:
        """As VersionRegister."""
        self._persist(lambda: self._client.register_version(version))

    def list_versions(self) -> list[PolicyVersion]:
        """As VersionRegister."""
        return self._persist(self._client.list_versions)

    def get_version(self, version: str) -> PolicyVersion:
        """As VersionRegister."""
        return self._persist(lambda: self._client.get_version(version))

    def serving_version(self) -> PolicyVersion:
        """As VersionRegister."""
        return self._persist(self._client.serving_version)

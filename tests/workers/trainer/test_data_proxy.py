"""Patience with a data proxy that is down, and the lease that a keeper holds."""

import threading

import pytest

from atdp.samples import BatchManifest, Lease
from atdp.versions import PolicyVersion
from dataproxy.client import BadRequest, NotFound, Unavailable
from dataproxy.client.types import LeaseAck, LeaseRequest
from workers.trainer.data_proxy import PatientDataProxy
from workers.trainer.errors import LeaseLost
from workers.trainer.lease_keeper import LeaseKeeper


class Flaky:
    """A data proxy that fails with `failures`, in order, and then works. Satisfies DataProxy."""

    def __init__(self, *failures: Exception) -> None:
        self.failures = list(failures)
        self.num_renewals = 0
        self.renewed_twice = threading.Event()

    def _answer(self) -> None:
        if self.failures:
            raise self.failures.pop(0)

    def lease(self, request: LeaseRequest) -> Lease:
        self._answer()
        return Lease("lease-1", 0, [])

    def renew_lease(self, lease_id: str, ttl_s: float) -> dict[str, int]:
        self.num_renewals += 1
        if self.num_renewals == 2:
            self.renewed_twice.set()
        self._answer()
        return {"deadline_us": 1}

    def ack_lease(self, lease_id: str, ack: LeaseAck) -> None:
        self._answer()

    def store_batch(self, manifest: BatchManifest) -> None:
        self._answer()

    def register_version(self, version: PolicyVersion) -> None:
        self._answer()

    def list_versions(self) -> list[PolicyVersion]:
        self._answer()
        return []

    def get_version(self, version: str) -> PolicyVersion:
        self._answer()
        return PolicyVersion(version, None, "serving", 0, "")

    def serving_version(self) -> PolicyVersion:
        return self.get_version("v000000")


def test_a_call_is_repeated_until_the_data_proxy_is_back() -> None:
    pauses: list[float] = []
    patient = PatientDataProxy(Flaky(Unavailable("down"), Unavailable("down")), 120.0, pauses.append)
    assert patient.serving_version().version == "v000000" and pauses == [0.1, 0.2]


def test_patience_ends() -> None:
    pauses: list[float] = []
    patient = PatientDataProxy(Flaky(*[Unavailable("down")] * 1000), 10.0, pauses.append)
    with pytest.raises(Unavailable):
        patient.list_versions()
    assert 10.0 <= sum(pauses) < 13.0


def test_other_errors_are_not_repeated() -> None:
    flaky = Flaky(NotFound("no"), NotFound("no"))
    with pytest.raises(NotFound):
        PatientDataProxy(flaky).get_version("v000001")
    assert len(flaky.failures) == 1


def test_a_keeper_renews_while_the_step_runs_and_through_an_outage() -> None:
    flaky = Flaky(Unavailable("down"))
    with LeaseKeeper(flaky, "lease-1", ttl_s=0.03) as keeper:
        assert flaky.renewed_twice.wait(30)
        keeper.confirm()
    assert not any(thread.name == "keep lease-1" for thread in threading.enumerate())


@pytest.mark.parametrize("error", [BadRequest("ended"), NotFound("unknown")])
def test_a_lost_lease_is_found_before_anything_is_published(error: Exception) -> None:
    with LeaseKeeper(Flaky(error), "lease-1", ttl_s=1000.0) as keeper, pytest.raises(LeaseLost):
        keeper.confirm()

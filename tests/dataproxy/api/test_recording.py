"""What becomes of calls that cannot be recorded: the tenant's choice reaches the key table, and gaps become events, once."""

from collections.abc import Iterator
from pathlib import Path

import httpx
import msgspec
import pytest
from sqlalchemy import select
from typer.testing import CliRunner

from dataproxy.client import BadRequest, Denied, SyncDataProxyClient
from dataproxy.client.types import Gap, RecordingPolicy
from dataproxy.store.schema import event
from deploy.cli import app
from tests.dataproxy.api.served import serve
from tests.dataproxy.proxy import Proxy

GAP = Gap("0" * 31 + "1", "acme", "triage", "key-1", "journal_full", 7, 1_000, 2_000)


@pytest.fixture
def socket_path(proxy: Proxy, tmp_path: Path) -> Iterator[Path]:
    with serve(proxy.services, tmp_path / "api.sock") as path:
        yield path


def tell(path: Path, key: str, gaps: list[Gap]) -> httpx.Response:
    with httpx.Client(transport=httpx.HTTPTransport(uds=str(path)), base_url="http://dataproxy", timeout=60) as client:
        return client.post("/v1/gaps", content=msgspec.json.encode(gaps), headers={"authorization": f"Bearer {key}"})


def unrecorded(client: SyncDataProxyClient) -> set[str]:
    return {row.tenant for row in client.key_table() if row.unrecorded}


def test_the_latest_choice_of_a_tenant_holds_and_gateways_hear_of_it(proxy: Proxy, socket_path: Path) -> None:
    proxy.key("agent")
    proxy.key("agent", "other")
    with SyncDataProxyClient(socket_path, proxy.files.api_key("admin")) as admin:
        assert unrecorded(admin) == set()
        admin.set_recording(RecordingPolicy("acme", True, "support desk"))
        assert unrecorded(admin) == {"acme"}
        admin.set_recording(RecordingPolicy("acme", False, "audit"))
        assert unrecorded(admin) == set()
        assert [(row.unrecorded, row.reason) for row in admin.list_recording()] == [(True, "support desk"), (False, "audit")]
        with pytest.raises(BadRequest, match="reason"):
            admin.set_recording(RecordingPolicy("acme", True, ""))


def test_a_tenant_chooses_for_itself_alone(proxy: Proxy, socket_path: Path) -> None:
    with SyncDataProxyClient(socket_path, proxy.key("admin", "other")) as other:
        with pytest.raises(BadRequest, match="that tenant only"):
            other.set_recording(RecordingPolicy("acme", True, "not mine"))
        other.set_recording(RecordingPolicy("other", True, "mine"))
    with SyncDataProxyClient(socket_path, proxy.key("reviewer", "acme")) as reviewer:
        assert reviewer.list_recording() == []
        with pytest.raises(Denied):
            reviewer.set_recording(RecordingPolicy("acme", True, "a reviewer does not choose"))


def test_a_gap_becomes_one_event_however_often_it_is_told(proxy: Proxy, socket_path: Path) -> None:
    gateway = proxy.files.api_key("gateway")
    assert [tell(socket_path, gateway, [GAP]).json()["stored"] for _ in range(2)] == [1, 0]
    (row,) = proxy.rows(select(event).where(event.c.kind == "lifecycle"))
    assert (row.tenant, row.agent, row.started_us, row.ended_us) == ("acme", "triage", 1_000, 2_000)
    with SyncDataProxyClient(socket_path, proxy.files.api_key("admin")) as admin:
        (stored,) = admin.list_events(kind="lifecycle").events
    assert stored.y == {"recording": "gap", "num_calls": 7, "reason": "journal_full"}


def test_only_a_gateway_tells_gaps(proxy: Proxy, socket_path: Path) -> None:
    for role in ("agent", "reviewer"):
        assert tell(socket_path, proxy.key(role), [GAP]).status_code == 403
    assert tell(socket_path, proxy.files.api_key("gateway"), []).json() == {"stored": 0}


def test_the_command_says_what_it_does(tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["recording", "set", "--help"])
    assert done.exit_code == 0 and "serve_unrecorded" in done.stdout and "headrace recording set strict" in done.stdout
    wrong = CliRunner().invoke(app, ["recording", "set", "sometimes"])
    assert wrong.exit_code == 2

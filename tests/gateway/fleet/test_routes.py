"""Registration over HTTP: who may, what holds at once and in other processes, expiry, drains, lanes, and that calls get there."""

import time

import httpx
import msgspec
import pytest

from gateway.app import create_gateway
from gateway.fleet.follow import Follower
from gateway.fleet.register import Register, id_of
from gateway.polling import WorkerPoller
from gateway.settings import Settings
from router.workers import Health
from tests.fakes.dataproxy import key_row
from tests.fakes.engine import FakeEngine
from tests.fakes.journal import FakeJournal
from tests.gateway.conftest import KEYS
from tests.gateway.sse import BODY, CHAT


@pytest.fixture
async def operator(served):
    """A client with the operator's key, which belongs to no tenant."""
    table = msgspec.json.encode([*KEYS, key_row("hr_operator", tenant="", agent="", role="admin")])
    served.gateway.keys.load(table)
    served.dataproxy.keys.append(key_row("hr_operator", tenant="", agent="", role="admin"))
    async with served.client("hr_operator") as client:
        yield client


@pytest.fixture
async def other():
    """Another engine, of model ``other``."""
    engine = FakeEngine(model_name="other")
    async with engine.serve() as engine.url:
        yield engine


async def poll(served):
    await WorkerPoller(served.gateway)()


async def urls(client):
    return [worker["url"] for worker in (await client.get("/v1/workers")).json()["workers"]]


@pytest.mark.parametrize("key", ["hr_acme", "hr_reviewer", "hr_admin"])
@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/v1/workers"), ("POST", "/v1/workers"), ("DELETE", "/v1/workers/x"), ("POST", "/v1/workers/x/drain"),
        ("DELETE", "/v1/workers/x/drain"), ("PUT", "/v1/lanes"), ("PUT", "/v1/workers/x/out"), ("DELETE", "/v1/workers/x/out"),
        ("PUT", "/v1/workers/x/lane"), ("PUT", "/v1/workers/x/proof"),
    ],
)  # fmt: skip
async def test_only_the_operator_may_and_no_tenants_admin(served, key, method, path):
    async with served.client(key) as client:
        answer = await client.request(method, path, json={"url": "http://127.0.0.1:9"})
    assert (answer.status_code, answer.json()["error"]["code"]) == (403, "operator_required")
    async with httpx.AsyncClient(base_url=served.url, timeout=60) as nobody:
        assert (await nobody.request(method, path)).status_code == 401
    assert [worker.url for worker in served.gateway.workers] == list(served.gateway.settings.engine_urls)


async def test_a_registered_worker_serves_its_model_until_it_is_removed(served, operator, other):
    answer = await operator.post("/v1/workers", json={"url": other.url})
    assert (answer.status_code, answer.json()["url"], answer.json()["source"]) == (201, other.url, "registered")
    assert (await operator.post("/v1/workers", json={"url": other.url})).status_code == 200
    await poll(served)
    async with served.client() as agent:
        called = await agent.post(CHAT, json={**BODY, "model": "other", "stream": False})
        assert called.status_code == 200 and len(other.calls) == 1
        removed = await operator.delete(f"/v1/workers/{answer.json()['id']}")
        assert removed.status_code == 200
        assert (await agent.post(CHAT, json={**BODY, "model": "other"})).status_code == 404
    assert (await operator.delete(f"/v1/workers/{answer.json()['id']}")).status_code == 404


async def test_every_process_of_the_machine_follows_also_after_a_restart(served, operator, other, run_dir):
    await operator.post("/v1/workers", json={"url": other.url, "lane": "canary"})
    await operator.put("/v1/lanes", json={"canary_per_mille": 50})
    second = create_gateway(
        Settings(data_dir=run_dir, config_dir=run_dir / "config", engine_urls=("http://127.0.0.1:1",)), FakeJournal()
    )
    poller = WorkerPoller(second)
    await poller()
    assert [(worker.url, worker.lane) for worker in second.workers] == [("http://127.0.0.1:1", "stable"), (other.url, "canary")]
    assert second.routing.canary_per_mille == 50
    await operator.post(f"/v1/workers/{id_of(other.url)}/drain")
    await poller()
    assert second.workers[1].draining
    await operator.delete(f"/v1/workers/{id_of(other.url)}/drain")
    await operator.delete(f"/v1/workers/{id_of(other.url)}")
    await poller()
    assert [worker.url for worker in second.workers] == ["http://127.0.0.1:1"]
    second.admission.close()


async def test_a_worker_with_a_time_to_live_goes_unless_it_is_renewed(served, operator, other):
    await operator.post("/v1/workers", json={"url": other.url, "ttl_s": 60})
    follower = Follower(served.gateway, Register(served.gateway.settings.data_dir / "gateway"))
    follower(time.time())
    assert other.url in await urls(operator)
    register = Register(served.gateway.settings.data_dir / "gateway", clock=lambda: time.time() + 61)
    late = Follower(served.gateway, register)
    late(time.time() + 61)
    assert other.url not in await urls(operator)
    assert (await operator.post("/v1/workers", json={"url": other.url, "ttl_s": 60})).status_code in (200, 201)
    assert other.url in await urls(operator)


async def test_a_draining_worker_keeps_its_session_and_gets_no_new_one(served, operator, other):
    other.model_name = "tiny"
    await operator.post("/v1/workers", json={"url": other.url})
    await poll(served)

    async def call(session):
        async with served.client() as agent:
            return (await agent.post(CHAT, json={**BODY, "stream": False}, headers={"x-session-id": session})).status_code

    mine = [f"s{i}" for i in range(8)]
    for session in mine:
        assert await call(session) == 200
    before = (len(served.engine.calls), len(other.calls))
    assert all(before)
    drained = (await operator.post(f"/v1/workers/{id_of(other.url)}/drain")).json()
    assert drained["draining"] and not drained["drained"]
    for session in mine:
        await call(session)
    assert (len(served.engine.calls), len(other.calls)) == (2 * before[0], 2 * before[1])
    for i in range(8):
        await call(f"new{i}")
    assert len(other.calls) == 2 * before[1]


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        (b'{"url":"http://169.254.169.254/"}', 403, "worker_address_not_allowed"),
        (b'{"url":"http://10.1.2.3:30000"}', 403, "worker_address_not_allowed"),
        (b'{"url":"file:///etc/passwd"}', 400, "invalid_worker_url"),
        (b'{"url":"http://127.0.0.1:1","lane":"fast"}', 400, "invalid_request"),
        (b'{"url":"http://127.0.0.1:1","ttl_s":0}', 400, "invalid_request"),
        (b'{"url":"http://127.0.0.1:1","ttl":1}', 400, "invalid_request"),
        (b"{", 400, "invalid_request"),
        (b"\xff", 400, "invalid_request"),
    ],
)
async def test_what_may_not_be_registered_is_refused_and_changes_nothing(served, operator, body, status, code):
    answer = await operator.post("/v1/workers", content=body)
    assert (answer.status_code, answer.json()["error"]["code"]) == (status, code)
    assert await urls(operator) == list(served.gateway.settings.engine_urls)


async def test_workers_of_the_settings_are_drained_but_not_removed(served, operator):
    (url,) = served.gateway.settings.engine_urls
    assert (await operator.delete(f"/v1/workers/{id_of(url)}")).status_code == 409
    assert (await operator.post("/v1/workers", json={"url": url})).status_code == 409
    assert (await operator.post(f"/v1/workers/{id_of(url)}/drain")).json()["draining"]
    async with served.client() as agent:  # alone, it serves still
        assert (await agent.post(CHAT, json={**BODY, "stream": False})).status_code == 200
    assert (await operator.delete(f"/v1/workers/{id_of(url)}/drain")).json()["draining"] is False


async def test_a_damaged_register_leaves_the_workers_as_they_are(served, operator, other):
    await operator.post("/v1/workers", json={"url": other.url})
    (served.gateway.settings.data_dir / "gateway" / "workers.json").write_text("{")
    await poll(served)
    assert other.url in await urls(operator)
    assert served.gateway.workers[0].health is Health.READY

"""Models, feedback, readiness and metrics; the cached key table while the data proxy is away."""

import asyncio

import pytest

from dataproxy.keyfiles import KeyFiles
from gateway.app import create_gateway
from gateway.polling import KeyPoller, WorkerPoller
from gateway.settings import Settings
from router.workers import Health
from tests.fakes.dataproxy import FakeDataProxy
from tests.fakes.journal import FakeJournal
from tests.gateway.conftest import KEYS, Served, serve_gateway
from tests.gateway.sse import BODY, CHAT

REWARD = {"target": "chatcmpl-1", "value": 1.0}


@pytest.mark.parametrize("path", ["/v1/feedback", "/feedback", "/s/x/v1/feedback"])
async def test_feedback_goes_to_the_data_proxy_under_the_callers_key(served, path):
    async with served.client() as client:
        answer = await client.post(path, json=REWARD)
    assert (answer.status_code, answer.json()["status"]) == (200, "stored")
    headers, body = served.dataproxy.feedback[0]
    assert headers["authorization"] == "Bearer hr_acme"
    assert body == b'{"target":"chatcmpl-1","value":1.0}'


@pytest.mark.parametrize("status", [202, 400, 404])
async def test_what_the_data_proxy_says_to_feedback_is_passed_on(served, status):
    served.dataproxy.feedback_answer = (status, b'{"error":{"message":"m","type":"t","code":"c"}}')
    async with served.client() as client:
        answer = await client.post("/v1/feedback", json=REWARD)
    assert (answer.status_code, answer.content) == served.dataproxy.feedback_answer
    assert answer.headers["content-type"] == "application/json"


async def test_feedback_with_a_wrong_key_is_401_and_not_relayed(served):
    async with served.client("hr_wrong") as client:
        assert (await client.post("/v1/feedback", json=REWARD)).status_code == 401
    assert served.dataproxy.feedback == []


async def test_models_are_the_engines_own_bytes_or_cut_to_what_the_key_may_use(served):
    async with served.client() as client, served.client("hr_elsewhere") as elsewhere, served.client("hr_limited") as limited:
        everything = (await client.get("/v1/models")).json()
        assert [card["id"] for card in everything["data"]] == ["tiny"]
        assert (await limited.get("/v1/models")).json() == everything
        assert (await elsewhere.get("/v1/models")).json() == {"data": [], "object": "list"}
        assert (await client.get("/v1/models", headers={"authorization": "Bearer no"})).status_code == 401
        served.gateway.workers[0].health = Health.DOWN
        assert (await client.get("/v1/models")).status_code == 503


async def test_an_adapter_is_a_version_of_its_model_and_none_that_agents_see(served):
    async with served.client() as client:
        before = (await client.get("/v1/models")).json()
        served.engine.model.adapters.serving = ("v000001", "0" * 64)
        assert (await client.get("/v1/models")).json() == before
        assert (await client.get("/v1/models/v000001-0")).status_code == 404


async def test_one_model_is_shown_to_the_keys_that_may_use_it(served):
    async with served.client() as client, served.client("hr_elsewhere") as elsewhere:
        assert (await client.get("/v1/models/tiny")).json() == (await client.get("/v1/models")).json()["data"][0]
        for answer in (await elsewhere.get("/v1/models/tiny"), await client.get("/v1/models/org/none")):
            assert (answer.status_code, answer.json()["error"]["code"]) == (404, "model_not_found")


async def test_calls_are_served_and_feedback_is_503_while_the_data_proxy_is_down(served, run_dir):
    (run_dir / "run" / "dataproxy.sock").unlink()
    served.gateway.pool.close()
    await KeyPoller(served.gateway)()
    async with served.client() as client:
        assert (await client.post(CHAT, json=BODY)).status_code == 200
        answer = await client.post("/v1/feedback", json=REWARD)
    assert (answer.status_code, answer.json()["error"]["code"]) == (503, "dataproxy_unavailable")
    assert int(answer.headers["retry-after"]) > 0


async def test_a_revoked_key_is_refused_after_the_next_poll(served):
    served.dataproxy.keys = [{**row, "revoked": True} for row in KEYS]
    await KeyPoller(served.gateway)()
    async with served.client() as client:
        assert (await client.post(CHAT, json=BODY)).status_code == 401


async def test_a_gateway_without_a_first_table_waits_for_it_then_says_503(run_dir):
    settings = Settings(data_dir=run_dir, config_dir=run_dir / "config", engine_urls=("http://127.0.0.1:1",), keys_wait_s=0.05)
    gateway = create_gateway(settings, FakeJournal())
    async with serve_gateway(gateway) as url:
        served = Served(url, gateway, gateway.journal, None, None)
        async with served.client() as client:
            assert (await client.get("/ready")).status_code == 503
            assert (await client.get("/health")).status_code == 200
            answer = await client.post(CHAT, json=BODY)
            assert (answer.status_code, answer.json()["error"]["code"]) == (503, "keys_not_loaded")


async def test_a_call_that_came_before_the_first_table_is_let_in_when_it_comes(run_dir):
    settings = Settings(data_dir=run_dir, config_dir=run_dir / "config", engine_urls=("http://127.0.0.1:1",), keys_wait_s=20)
    gateway = create_gateway(settings, FakeJournal())
    dataproxy = FakeDataProxy(KEYS)
    async with serve_gateway(gateway) as url:
        served = Served(url, gateway, gateway.journal, None, dataproxy)
        async with served.client() as client:
            call = asyncio.ensure_future(client.get("/v1/models"))
            async with dataproxy.serve(run_dir / "run" / "dataproxy.sock"):
                assert (await call).status_code == 503
                assert call.result().json()["error"]["code"] == "no_worker"
    assert dataproxy.table_calls[0] == f"Bearer {KeyFiles(run_dir / 'config').api_key('gateway')}"


async def test_readiness_names_workers_and_models_and_falls_with_them(served):
    async with served.client() as client:
        ready = await client.get("/ready")
        assert (ready.status_code, ready.json()["models"]) == (200, ["tiny"])
        served.engine.is_ready = False
        await WorkerPoller(served.gateway)()
        assert (await client.get("/ready")).status_code == 200  # paused engines come back
        served.gateway.workers[0].health = Health.DOWN
        assert (await client.get("/ready")).status_code == 503


async def test_a_starting_engine_takes_no_calls_until_it_is_ready_but_a_paused_one_keeps_them(served):
    worker, poll = served.gateway.workers[0], WorkerPoller(served.gateway)
    for before, is_ready, after in [
        (Health.DOWN, False, Health.DOWN),
        (Health.DOWN, True, Health.READY),
        (Health.READY, False, Health.WAITING),
        (Health.WAITING, False, Health.WAITING),
        (Health.WAITING, True, Health.READY),
    ]:
        worker.health, served.engine.is_ready = before, is_ready
        await poll()
        assert worker.health is after


async def test_metrics_count_what_happened(served):
    async with served.client() as client:
        await client.post(CHAT, json=BODY)
        await client.post(CHAT, content=b"{")
        text = (await client.get("/metrics")).text
    assert 'headrace_gateway_calls_total{status="200"} 1' in text
    assert 'headrace_gateway_refused_total{code="invalid_json"} 1' in text
    assert 'headrace_gateway_deliveries_total{delivery="complete"} 1' in text
    assert f'headrace_gateway_worker_health{{worker="{served.gateway.workers[0].url}"}} 0' in text


async def test_the_journal_is_flushed_when_the_gateway_stops(run_dir):
    settings = Settings(data_dir=run_dir, config_dir=run_dir / "config", engine_urls=("http://127.0.0.1:1",))
    gateway = create_gateway(settings, FakeJournal())
    async with serve_gateway(gateway):
        assert not gateway.journal.closed
    assert gateway.journal.closed

"""What must not serve gets no calls: workers taken out, workers whose lane serves another version; and who may say so."""

import asyncio

import pytest

from gateway.fleet.register import id_of
from gateway.polling import KeyPoller, WorkerPoller
from gateway.upstream.origin import Origin
from router.workers import Health
from tests.fakes.dataproxy import key_row
from tests.fakes.engine import FakeEngine
from tests.gateway.sse import BODY, CHAT
from workers.trainer.fleet import GatewayFleet, Out, Seat


@pytest.fixture
async def publisher(served):
    """A client with the key of a trainer that belongs to no tenant."""
    served.dataproxy.keys.append(key_row("hr_publisher", tenant="", agent="", role="trainer"))
    served.dataproxy.keys.append(key_row("hr_operator", tenant="", agent="", role="admin"))
    await KeyPoller(served.gateway)()
    async with served.client("hr_publisher") as client:
        yield client


@pytest.fixture
async def other(served):
    """A second engine for the same model, registered."""
    engine = FakeEngine(model_name="tiny")
    async with engine.serve() as engine.url:
        async with served.client("hr_operator") as operator:
            added = await operator.post("/v1/workers", json={"url": engine.url})
        assert added.status_code == 201
        await poll(served)
        yield engine


async def poll(served):
    await WorkerPoller(served.gateway)()


def worker_at(served, url):
    return next(worker for worker in served.gateway.workers if worker.url == url)


def first_url(served):
    return served.gateway.settings.engine_urls[0]


async def answers_of(served, count=12):
    """Calls of so many sessions; the URLs that answered."""
    before = set(served.journal.finished)
    async with served.client() as agent:
        for number in range(count):
            answer = await agent.post(CHAT, json=BODY | {"stream": False}, headers={"x-session-id": f"s{number}"})
            assert answer.status_code == 200
    return {half.worker for name, half in served.journal.finished.items() if name not in before}


async def prove(publisher, engine, url):
    """What the keeper says once it has compared this start's weights with the record."""
    shown = await publisher.put(f"/v1/workers/{id_of(url)}/proof", json={"instance": engine.instance})
    assert shown.status_code == 200 and shown.json()["proven"] == engine.instance


async def test_a_worker_that_was_taken_out_serves_nothing_until_it_is_back(served, publisher, other):
    path = f"/v1/workers/{id_of(other.url)}/out"
    out = await publisher.put(path, json={"reason": "did not take v000002"})
    assert out.status_code == 200 and out.json()["out"]["reason"] == out.json()["refusal"] == "did not take v000002"
    await poll(served)
    assert worker_at(served, other.url).health is Health.DOWN
    assert await answers_of(served) == {first_url(served)}
    assert (await publisher.delete(path)).json()["out"] is None
    await poll(served)
    assert await answers_of(served) == {first_url(served), other.url}


async def test_a_publisher_that_has_much_to_say_takes_a_worker_out_all_the_same(served, publisher, other):
    fleet = GatewayFleet(served.url, "hr_publisher", patience_s=0.0)
    await asyncio.to_thread(fleet.take_out, Seat(id_of(other.url), other.url), Out("did not take v000002: " + "frame " * 1000))
    (seat,) = [seat for seat in (await asyncio.to_thread(fleet.view)).seats if seat.url == other.url]
    assert seat.out is not None and seat.out.reason.startswith("did not take v000002: frame")


async def test_a_worker_that_holds_what_its_lane_does_not_serve_gets_no_calls(served, publisher, other):
    other.model.weights.version = "v000007"
    for engine, url in ((served.engine, first_url(served)), (other, other.url)):
        await prove(publisher, engine, url)
    await publisher.put("/v1/lanes", json={"versions": {"stable": ["v000000"]}})
    await poll(served)
    assert await answers_of(served) == {first_url(served)}
    shown = {worker["url"]: worker for worker in (await publisher.get("/v1/workers")).json()["workers"]}
    assert shown[other.url]["refusal"] == "holds v000007, its lane serves v000000" and shown[first_url(served)]["refusal"] == ""
    await publisher.put("/v1/lanes", json={"versions": {"stable": ["v000000", "v000007"]}})
    await poll(served)
    assert await answers_of(served) == {first_url(served), other.url}
    await publisher.put("/v1/lanes", json={"versions": {"stable": []}})
    await poll(served)
    assert worker_at(served, other.url).allowed == frozenset()


async def test_a_late_worker_with_old_weights_never_serves_before_it_has_the_new_ones(served, publisher):
    await publisher.put("/v1/lanes", json={"versions": {"stable": ["v000000"]}})
    late = FakeEngine(model_name="tiny")
    late.model.weights.version = "v000009"
    async with late.serve() as late.url, served.client("hr_operator") as operator:
        await operator.post("/v1/workers", json={"url": late.url})
        for _ in range(2):
            await poll(served)
            assert worker_at(served, late.url).health is Health.DOWN
        await prove(publisher, late, late.url)
        await poll(served)
        assert worker_at(served, late.url).health is Health.DOWN
        late.model.weights.version = "v000000"
        await poll(served)
        assert worker_at(served, late.url).health is Health.READY


async def test_a_worker_serves_nothing_before_its_weights_were_compared_at_each_of_its_starts(served, publisher, other):
    await prove(publisher, served.engine, first_url(served))
    await publisher.put("/v1/lanes", json={"versions": {"stable": ["v000000"]}})
    await poll(served)
    assert await answers_of(served) == {first_url(served)}
    shown = {worker["url"]: worker for worker in (await publisher.get("/v1/workers")).json()["workers"]}
    assert "has not shown yet that its weights are those of v000000" in shown[other.url]["refusal"]
    await prove(publisher, other, other.url)
    await poll(served)
    assert await answers_of(served) == {first_url(served), other.url}
    other.instance = "another start"
    await poll(served)
    assert await answers_of(served) == {first_url(served)}


async def test_what_answers_after_a_worker_was_down_is_taken_for_another_start(served, publisher, other):
    for engine, url in ((served.engine, first_url(served)), (other, other.url)):
        await prove(publisher, engine, url)
    await publisher.put("/v1/lanes", json={"versions": {"stable": ["v000000"]}})
    poller, worker = WorkerPoller(served.gateway), worker_at(served, other.url)
    await poller()
    assert worker.health is Health.READY
    origin = served.gateway.origins[other.url]
    served.gateway.origins[other.url] = Origin.parse("http://127.0.0.1:9")
    for _ in range(3):
        await poller()
    assert worker.health is Health.DOWN and worker.refusal
    served.gateway.origins[other.url] = origin
    await poller()
    assert worker.health is Health.READY and not worker.refusal


async def test_nobody_asks_a_proxy_of_other_providers_for_weights(served, publisher):
    await publisher.put("/v1/lanes", json={"versions": {"stable": ["v000000"]}})
    external = FakeEngine(model_name="other")
    async with external.serve() as url, served.client("hr_operator") as operator:
        await operator.post("/v1/workers", json={"url": url, "kind": "external"})
        await poll(served)
        assert worker_at(served, url).health is Health.READY
        assert worker_at(served, first_url(served)).health is Health.DOWN


async def test_every_answer_bears_the_lane_of_the_worker_that_gave_it(served, publisher, other):
    moved = await publisher.put(f"/v1/workers/{id_of(other.url)}/lane", json={"lane": "canary"})
    assert moved.json()["lane"] == "canary"
    shared = await publisher.put("/v1/lanes", json={"canary_per_mille": 500})
    assert shared.json()["canary_per_mille"] == 500
    await answers_of(served, 24)
    lanes = {(half.worker, half.lane) for half in served.journal.finished.values()}
    assert lanes == {(first_url(served), "stable"), (other.url, "canary")}


@pytest.mark.parametrize("body", [{}, {"reason": ""}, {"reason": "x", "other": 1}])
async def test_a_reason_is_needed(served, publisher, other, body):
    answer = await publisher.put(f"/v1/workers/{id_of(other.url)}/out", json=body)
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "invalid_request")

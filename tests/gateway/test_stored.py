"""Stored answers: only their tenant reaches them, and every later call reaches the worker that holds them."""

import pytest

from gateway.placement import mark
from router.workers import Health
from tests.fakes.engine import FakeEngine
from tests.gateway.conftest import run_gateway

RESPONSES = "/v1/responses"


@pytest.fixture
async def pair(run_dir):
    """A gateway with two engines."""
    one, two = FakeEngine(), FakeEngine()
    async with one.serve() as first, two.serve() as second, run_gateway(run_dir, one, [first, second]) as served:
        served.engines = {first: one, second: two}
        yield served


def ask(text, **fields):
    return {"model": "tiny", "input": text, **fields}


async def test_a_call_that_goes_on_from_an_answer_reaches_its_worker_whatever_its_own_session(pair):
    async with pair.client() as client:
        for number in range(12):
            first = await client.post(RESPONSES, json=ask(f"conversation {number}"))
            holder = next(engine for engine in pair.engines.values() if first.json()["id"] in engine.responses.stored)
            previous = first.json()["id"]
            for turn in range(3):
                body = ask(f"turn {turn}", previous_response_id=previous, stream=turn == 1)
                answer = await client.post(RESPONSES, json=body, headers={"x-session-id": f"{number}-{turn}"})
                assert answer.status_code == 200
                previous = next(reversed(holder.responses.stored))
                assert answer.headers["x-headrace-event"] in previous
    assert all(engine.calls for engine in pair.engines.values())


async def test_an_answer_is_retrieved_and_cancelled_on_its_worker(pair):
    async with pair.client() as client:
        for number in range(6):
            made = (await client.post(RESPONSES, json=ask(f"text {number}"))).json()
            got = await client.get(f"{RESPONSES}/{made['id']}")
            assert (got.status_code, got.json()) == (200, made)
            assert (await client.post(f"{RESPONSES}/{made['id']}/cancel")).json() == made


async def test_a_deleted_answer_is_gone_from_its_worker(pair):
    async with pair.client() as client:
        for number in range(6):
            made = (await client.post(RESPONSES, json=ask(f"text {number}"))).json()
            gone = await client.delete(f"{RESPONSES}/{made['id']}")
            assert gone.json() == {"id": made["id"], "object": "response", "deleted": True}
            for answer in (
                await client.get(f"{RESPONSES}/{made['id']}"),
                await client.delete(f"{RESPONSES}/{made['id']}"),
                await client.post(RESPONSES, json=ask("more", previous_response_id=made["id"])),
            ):
                assert (answer.status_code, answer.json()["error"]["type"]) == (404, "invalid_request_error")
    assert all(not engine.responses.stored for engine in pair.engines.values())


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "{id}?stream=true", 400),
        ("GET", "{id}/input_items", 404),
        ("PATCH", "{id}", 405),
        ("POST", "input_tokens", 405),
        ("POST", "compact", 405),
    ],
)
async def test_what_is_not_served_of_stored_answers_says_so_in_the_dialects_form(pair, method, path, status):
    async with pair.client() as client:
        made = (await client.post(RESPONSES, json=ask("text"))).json()
        answer = await client.request(method, f"{RESPONSES}/{path.format(id=made['id'])}")
    error = answer.json()["error"]
    assert (answer.status_code, error["type"], error["code"]) == (
        status,
        "invalid_request_error",
        answer.headers["x-headrace-error"],
    )


async def test_an_answer_that_the_second_worker_gave_is_found_there(pair):
    async with pair.client() as client:
        made = (await client.post(RESPONSES, json=ask("text"))).json()
        first = next(url for url, engine in pair.engines.items() if engine.calls)
        pair.gateway.workers[:] = sorted(pair.gateway.workers, key=lambda worker: worker.url != first)
        dead = pair.gateway.workers[0]
        pair.gateway.pool.close()
        pair.gateway.origins[dead.url] = type(pair.gateway.origins[dead.url]).parse("http://127.0.0.1:1")
        moved = (await client.post(RESPONSES, json=ask("text"))).json()
        assert mark(moved["id"][5:37], dead.url) == moved["id"][5:37]
        assert (await client.get(f"{RESPONSES}/{moved['id']}")).status_code == 200
        assert dead.health is Health.DOWN
        for answer in (
            await client.get(f"{RESPONSES}/{made['id']}"),
            await client.post(RESPONSES, json=ask("more", previous_response_id=made["id"])),
        ):
            assert (answer.status_code, answer.json()["error"]["code"]) == (503, "no_worker")


@pytest.mark.parametrize("kind", ["forged", "another tenant's", "unknown worker", "no id"])
async def test_what_is_not_the_callers_is_404_everywhere_and_never_reaches_an_engine(pair, kind):
    async with pair.client() as client, pair.client("hr_other") as other:
        known = (await client.post(RESPONSES, json=ask("secret"))).json()["id"]
        caller, name = client, known
        if kind == "forged":
            name = known[:-1] + ("0" if known[-1] != "0" else "1")
        elif kind == "no id":
            name = "resp_1"
        elif kind == "unknown worker":
            for worker in pair.gateway.workers:
                worker.url = worker.url.replace("127.0.0.1", "localhost")
        else:
            caller = other
        num_calls = sum(len(engine.calls) for engine in pair.engines.values())
        for answer in (
            await caller.get(f"{RESPONSES}/{name}"),
            await caller.delete(f"{RESPONSES}/{name}"),
            await caller.post(f"{RESPONSES}/{name}/cancel"),
            await caller.post(RESPONSES, json=ask("more", previous_response_id=name)),
        ):
            error = answer.json()["error"]
            assert (answer.status_code, error["param"], error["type"]) == (404, "response_id", "invalid_request_error")
            assert name in error["message"] and "secret" not in answer.text
    assert sum(len(engine.calls) for engine in pair.engines.values()) == num_calls


async def test_a_key_is_needed_to_retrieve(pair):
    async with pair.client("hr_wrong") as client:
        assert (await client.get(f"{RESPONSES}/resp_1")).status_code == 401
        assert (await client.delete(f"{RESPONSES}/resp_1")).status_code == 401
        assert (await client.post(f"{RESPONSES}/resp_1/cancel")).status_code == 401

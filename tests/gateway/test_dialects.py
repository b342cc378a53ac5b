"""Four dialects on the hot route: ids, records, held ends, errors in each one's form, and the relays without a record."""

import asyncio
import json

import httpx
import pytest

from atdp.ids import verify_completion_id
from dataproxy.keyfiles import KeyFiles
from gateway.dialects import BY_PATH, CHAT, COMPLETIONS, MESSAGES, RESPONSES
from tests.fakes.engine_chat import Script
from tests.gateway.sse import Stream

SAY = [{"role": "user", "content": "hello"}]
BODIES = {
    CHAT: {"model": "tiny", "messages": SAY},
    COMPLETIONS: {"model": "tiny", "prompt": "hello"},
    RESPONSES: {"model": "tiny", "input": "hello"},
    MESSAGES: {"model": "tiny", "messages": SAY, "max_tokens": 100},
}
ENDS = {
    CHAT: b"data: [DONE]\n\n",
    COMPLETIONS: b"data: [DONE]\n\n",
    RESPONSES: b'event: response.completed\ndata: {"type":"response.completed"}\n\n',
    MESSAGES: b'event: message_delta\ndata: {}\n\nevent: message_stop\ndata: {"type":"message_stop"}\n\n',
}
RECORD = b'event: headrace.record\ndata: {"v":1}\n\n'
FIRST = b'event: first\ndata: {"a":1}\n\n'
each = pytest.mark.parametrize("dialect", BODIES, ids=lambda dialect: dialect.name)


def id_in(dialect, content):
    """The answer's id in a JSON body."""
    return json.loads(content)["id"]


@each
async def test_a_json_answer_shows_our_id_and_is_recorded_under_it(served, run_dir, dialect):
    async with served.client() as client:
        answer = await client.post(dialect.path, json=BODIES[dialect])
    assert answer.status_code == 200, answer.text
    assert b"headrace_record" not in answer.content
    shown = id_in(dialect, answer.content)
    assert shown.startswith(dialect.prefix)
    assert verify_completion_id(KeyFiles(run_dir / "config").mac(), "acme", shown) == answer.headers["x-headrace-event"]
    request, response = served.journal.only()
    assert (request.dialect, request.path, request.completion_id) == (dialect.name, dialect.path, shown)
    assert (response.delivery, response.body) == ("complete", answer.content)
    assert json.loads(response.record)["rid"] == shown


@each
async def test_a_stream_is_what_the_engine_sends_without_a_record(served, dialect):
    body = {**BODIES[dialect], "stream": True}
    async with served.client() as client, served.client("hr_quiet") as quiet:
        recorded, plain = await client.post(dialect.path, json=body), await quiet.post(dialect.path, json=body)
    ids = [answer.headers["x-headrace-event"] for answer in (recorded, plain)]
    strip = [
        answer.text.replace(call.headers["x-headrace-rid"], "ID").replace(call.headers["x-headrace-rid"][-12:], "TAIL")
        for answer, call in zip((recorded, plain), served.engine.calls, strict=True)
    ]
    assert strip[0] == strip[1] and strip[0].count("ID")
    assert len(set(ids)) == 2
    response = served.journal.only()[1]
    assert response.body == recorded.content and json.loads(response.record)["choices"]


@each
@pytest.mark.parametrize("with_record", [True, False])
async def test_the_end_is_held_until_the_journal_has_committed(served, dialect, with_record):
    served.journal.gate = asyncio.Event()
    served.engine.script = Script([FIRST, (RECORD if with_record else b"") + ENDS[dialect]])
    async with served.client() as client, client.stream("POST", dialect.path, json={**BODIES[dialect], "stream": True}) as answer:
        stream = Stream(answer)
        await stream.until(b"\n\n")
        half = await served.journal.arrived()
        assert (stream.text, half.body) == (FIRST, FIRST + ENDS[dialect])
        served.journal.gate.set()
        assert await stream.rest() == FIRST + ENDS[dialect]


@each
async def test_a_stream_that_breaks_ends_in_an_error_event_of_the_dialect(served, dialect):
    served.engine.script = Script([FIRST], cut=True)
    async with served.client() as client, client.stream("POST", dialect.path, json={**BODIES[dialect], "stream": True}) as answer:
        stream = Stream(answer)
        with pytest.raises(httpx.RemoteProtocolError):
            await stream.rest()
    name, _, data = stream.text.removeprefix(FIRST).decode().strip().rpartition("data: ")
    error = json.loads(data)
    assert name == ("" if dialect in (CHAT, COMPLETIONS) else "event: error\n")
    assert error.get("type") == (None if dialect in (CHAT, COMPLETIONS) else "error")
    assert error["error"]["message"]
    if dialect is MESSAGES:
        assert error["error"]["type"] == "api_error" and error["request_id"] == answer.headers["x-headrace-event"]
    if dialect is RESPONSES:
        assert error["code"] == "engine_lost"


ANTHROPIC = [(b"{", None, 400, "invalid_request_error"), (None, "hr_wrong", 401, "authentication_error")]
ANTHROPIC += [(None, "hr_reviewer", 403, "permission_error"), (b'{"model":"nope"}', None, 404, "not_found_error")]


@pytest.mark.parametrize(("raw", "key", "status", "kind"), ANTHROPIC)
@pytest.mark.parametrize("path", ["/v1/messages", "/v1/messages/count_tokens"])
async def test_our_errors_have_anthropics_form_under_messages(served, path, raw, key, status, kind):
    async with served.client(key or "hr_acme") as client:
        answer = await client.post(path, content=raw or json.dumps(BODIES[MESSAGES]))
    error = answer.json()
    assert (answer.status_code, error["type"], error["error"]["type"]) == (status, "error", kind)
    assert error["request_id"] == answer.headers["x-headrace-event"]
    assert set(error["error"]) == {"type", "message"} and answer.headers["x-headrace-error"]


async def test_overload_and_unknown_paths_have_anthropics_form_too(served):
    served.journal.full = True
    async with served.client() as client:
        full, unknown = await client.post(MESSAGES.path, json=BODIES[MESSAGES]), await client.get("/v1/messages/batches")
    assert (full.status_code, full.json()["error"]["type"]) == (503, "overloaded_error")
    assert (unknown.status_code, unknown.json()["error"]["type"]) == (404, "not_found_error")


@each
async def test_a_key_in_x_api_key_counts_in_every_dialect(served, dialect):
    async with httpx.AsyncClient(base_url=served.url, timeout=60) as client:
        good = await client.post(
            dialect.path, json=BODIES[dialect], headers={"x-api-key": "hr_acme", "anthropic-version": "2023-06-01"}
        )
        both = await client.post(dialect.path, json=BODIES[dialect], headers={"x-api-key": "hr_acme", "authorization": "Basic x"})
        bad = await client.post(dialect.path, json=BODIES[dialect], headers={"x-api-key": "hr_wrong"})
    assert (good.status_code, both.status_code, bad.status_code) == (200, 200, 401)
    call = served.engine.calls[0]
    assert call.headers["anthropic-version"] == "2023-06-01" and "x-api-key" not in call.headers


@pytest.mark.parametrize(
    ("path", "body"),
    [("/v1/messages/count_tokens", BODIES[MESSAGES]), ("/v1/embeddings", {"model": "tiny", "input": ["a", "b"]})],
)
async def test_calls_that_sample_nothing_are_relayed_under_the_id_of_their_event_and_not_recorded(served, path, body):
    async with served.client() as client:
        answer = await client.post(path, json={**body, "rid": "mine", "priority": 5})
    assert answer.status_code == 200
    assert {"input_tokens", "data"} & set(answer.json())
    assert served.engine.side_rids == [answer.headers["x-headrace-event"]]
    assert served.journal.begun == {} and not BY_PATH[path].generates


REACHING = {"request_id": "r", "custom_labels": {"a": "b"}, "extra_key": "k", "session_id": "s", "data_parallel_rank": 1}


@each
async def test_fields_that_reach_into_the_engine_are_taken_out_of_every_dialect(served, dialect):
    async with served.client() as client:
        await client.post(dialect.path, json={**BODIES[dialect], **REACHING, "unknown": [1]})
    assert json.loads(served.engine.calls[0].body) == {**BODIES[dialect], "unknown": [1]}

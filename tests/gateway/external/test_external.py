"""External models in every dialect: our id, the agent's name for the model, the provider's words, a price, a record, no tokens."""

import asyncio
from typing import Any

import msgspec
import pytest

from dataproxy.drain.answers import read_answer
from dataproxy.drain.dialects import DIALECTS
from dataproxy.drain.engine_record import read_record
from tests.gateway.external.conftest import External

pytestmark = pytest.mark.filterwarnings("default")
"""litellm warns of its own types while it builds them; that is no fault of what is tested here."""

TEXT = {"messages": [{"role": "user", "content": "hi"}]}
BODIES: dict[str, tuple[str, dict[str, Any]]] = {
    "chat": ("/v1/chat/completions", TEXT),
    "completions": ("/v1/completions", {"prompt": "hi"}),
    "responses": ("/v1/responses", {"input": "hi"}),
    "messages": ("/v1/messages", {**TEXT, "max_tokens": 9}),
}
PREFIX = {"chat": "chatcmpl-", "completions": "cmpl-", "responses": "resp_", "messages": "msg_"}
SPOKEN = [(dialect, model) for dialect in BODIES for model in ("judge", "claude")]
"""gpt-4o-mini costs 0.15 and 0.60 dollars a million tokens, claude-sonnet-4-5 3 and 15; the providers count 10 and 4."""
COST = {"judge": 10 * 0.15e-6 + 4 * 0.6e-6, "claude": 10 * 3e-6 + 4 * 15e-6}


def rid(dialect: str) -> str:
    return PREFIX[dialect] + "0" * 48


@pytest.mark.parametrize(("dialect", "model"), SPOKEN)
async def test_a_whole_answer_has_our_id_and_a_priced_record(external: External, dialect: str, model: str) -> None:
    path, body = BODIES[dialect]
    response = await external.post(path, body | {"model": model}, rid=rid(dialect))
    assert response.status_code == 200
    given = response.json()
    record = read_record(msgspec.json.encode(given.pop("headrace_record")))
    assert record.rid == given["id"] == rid(dialect) and record.model == given["model"] == model
    assert record.external and record.prompt_ids == "" and record.choices == []
    assert record.cost_usd == pytest.approx(COST[model])
    assert record.usage == {"prompt_tokens": 10, "completion_tokens": 4, "total_tokens": 14}
    answer = read_answer(DIALECTS[dialect], msgspec.json.encode(given), stream=False)
    assert answer["choices"][0]["message"]["content"] == "echo hi" and answer["choices"][0]["finish_reason"] == "stop"


@pytest.mark.parametrize(("dialect", "model"), SPOKEN)
async def test_a_stream_has_our_id_and_the_record_before_its_end(external: External, dialect: str, model: str) -> None:
    path, body = BODIES[dialect]
    response = await external.post(path, body | {"model": model, "stream": True}, rid=rid(dialect))
    events = [event for event in response.content.split(b"\n\n") if event.strip()]
    at = [i for i, event in enumerate(events) if event.startswith(b"event: headrace.record\n")]
    assert len(at) == 1
    record = read_record(events.pop(at[0]).partition(b"data: ")[2])
    assert record.rid == rid(dialect) and record.cost_usd == pytest.approx(COST[model]) and record.usage["total_tokens"] == 14
    answer = read_answer(DIALECTS[dialect], b"\n\n".join(events) + b"\n\n", stream=True)
    assert answer["id"] == rid(dialect) and answer["model"] == model
    assert answer["choices"][0]["message"]["content"] == "echo hi" and answer["choices"][0]["finish_reason"] == "stop"
    assert b"provider-id" not in response.content and b'msg_p","type":"message","role' not in response.content
    ends = {
        "chat": b'"finish_reason":"stop"', "completions": b'"finish_reason":"stop"',
        "responses": b"response.completed", "messages": b"message_delta",
    }  # fmt: skip
    assert not any(ends[dialect] in event for event in events[: at[0]])


async def test_nothing_is_added_where_no_record_is_wanted(external: External) -> None:
    body = TEXT | {"model": "judge"}
    assert "headrace_record" not in (await external.post("/v1/chat/completions", body, record=False)).json()
    stream = await external.post("/v1/chat/completions", body | {"stream": True}, record=False)
    assert b"headrace" not in stream.content and stream.content.endswith(b"data: [DONE]\n\n")


@pytest.mark.parametrize("asked", [True, False])
async def test_the_usage_chunk_comes_where_the_agent_asked_for_it(external: External, asked: bool) -> None:
    options = {"stream_options": {"include_usage": True}} if asked else {}
    response = await external.post("/v1/chat/completions", TEXT | {"model": "judge", "stream": True, **options}, record=False)
    assert (b'"usage"' in response.content) is asked and (b'"choices":[]' in response.content) is asked
    assert b"cost" not in response.content


async def test_a_price_in_the_file_goes_above_litellms_and_an_unknown_price_is_none(external: External) -> None:
    for model, cost in (("priced", 10 * 1e-6 + 4 * 2e-6), ("unpriced", None)):
        given = (await external.post("/v1/chat/completions", TEXT | {"model": model})).json()
        assert given["headrace_record"].get("cost_usd") == (pytest.approx(cost) if cost else None)


async def test_the_provider_gets_its_key_its_name_for_the_model_and_unknown_fields(external: External) -> None:
    await external.post(
        "/v1/chat/completions", TEXT | {"model": "judge", "x_new": {"a": 1}, "seed": 3}, authorization="Bearer hr_agents"
    )
    _, body, headers = external.providers.seen[-1]
    assert body["model"] == "gpt-4o-mini" and body["x_new"] == {"a": 1} and body["seed"] == 3
    assert headers["authorization"] == "Bearer key-openai" and "x-headrace-rid" not in headers
    beta = {"anthropic-beta": "b1"}
    await external.post("/v1/messages", TEXT | {"model": "claude", "max_tokens": 9, "x_new": 1}, **beta)
    path, body, headers = external.providers.seen[-1]
    assert path == "/v1/messages" and body["x_new"] == 1 and body["model"] == "claude-sonnet-4-5"
    assert headers["x-api-key"] == "key-anthropic" and headers["anthropic-beta"] == "b1"


@pytest.mark.parametrize("control", ["api_base", "base_url", "api_key", "mock_response", "custom_llm_provider", "extra_headers"])
async def test_no_field_of_an_agent_steers_litellm(external: External, control: str) -> None:
    response = await external.post("/v1/chat/completions", TEXT | {"model": "judge", control: "http://127.0.0.1:1"})
    assert response.status_code == 200 and response.json()["choices"][0]["message"]["content"] == "echo hi"
    _, body, headers = external.providers.seen[-1]
    assert body[control] == "http://127.0.0.1:1" and headers["authorization"] == "Bearer key-openai"
    refused = await external.post("/v1/chat/completions", TEXT | {"model": "claude", control: "x"})
    assert refused.status_code == 400 and refused.json()["error"]["param"] == control


async def test_tool_calls_come_in_the_agents_dialect_from_either_provider(external: External) -> None:
    function = {"name": "weather", "parameters": {"type": "object", "properties": {}}}
    chat = TEXT | {"tools": [{"type": "function", "function": function}]}
    tools = [{"name": "weather", "input_schema": {"type": "object", "properties": {}}}]
    for model in ("judge", "claude"):
        given = (await external.post("/v1/chat/completions", chat | {"model": model})).json()
        assert given["choices"][0]["message"]["tool_calls"][0]["function"]["name"] == "weather"
        given = (await external.post("/v1/messages", TEXT | {"model": model, "max_tokens": 9, "tools": tools})).json()
        assert given["content"][-1]["input"] == {"city": "Oslo"} and given["stop_reason"] == "tool_use"


@pytest.mark.parametrize("status", [400, 401, 429, 500])
@pytest.mark.parametrize("provider", ["openai", "anthropic"])
@pytest.mark.parametrize("dialect", ["chat", "responses", "messages"])
@pytest.mark.parametrize("stream", [False, True])
async def test_a_providers_error_has_its_status_in_the_agents_form(
    external: External, dialect: str, provider: str, status: int, stream: bool
) -> None:
    path, body = BODIES[dialect]
    response = await external.post(path, body | {"model": f"{provider}-{status}", "stream": stream}, rid=rid(dialect))
    assert response.status_code == status
    error = response.json()["error"]
    assert error["message"] == f"scripted {status}"
    if dialect == "messages":
        types = {400: "invalid_request_error", 401: "authentication_error", 429: "rate_limit_error", 500: "api_error"}
        assert response.json()["type"] == "error" and error["type"] == types[status]
    else:
        assert {"message", "type", "param", "code"} == error.keys()
    assert len(external.providers.seen) == 1
    if status == 429 and (provider == "openai" or dialect == "messages"):
        assert response.headers["retry-after"] == "7"


async def test_a_response_is_continued_under_the_id_that_the_agent_was_given(external: External) -> None:
    ours = "resp_" + "1" * 48
    await external.post("/v1/responses", {"model": "judge", "input": "hi"}, rid=ours)
    again = await external.post(
        "/v1/responses", {"model": "judge", "input": "on", "previous_response_id": ours}, rid=rid("responses")
    )
    assert again.status_code == 200 and external.providers.seen[-1][1]["previous_response_id"] == "resp_p"
    unknown = await external.post("/v1/responses", {"model": "judge", "input": "on", "previous_response_id": "resp_x"})
    assert unknown.status_code == 404 and unknown.json()["error"]["code"] == "previous_response_not_found"
    nowhere = await external.post("/v1/responses", {"model": "claude", "input": "on", "previous_response_id": ours})
    assert nowhere.status_code == 400 and nowhere.json()["error"]["param"] == "previous_response_id"


async def test_embeddings_models_loads_and_readiness_are_what_the_gateway_asks(external: External) -> None:
    vectors = (await external.post("/v1/embeddings", {"model": "judge", "input": ["x"]})).json()
    assert vectors["data"][0]["embedding"] == [0.5, -0.5] and vectors["model"] == "judge"
    models = (await external.client.get("/v1/models")).json()["data"]
    assert {"judge", "claude"} <= {model["id"] for model in models}
    assert (await external.client.get("/ready")).status_code == 200
    assert (await external.client.get("/v1/loads")).json() == {"loads": [{"max_running_requests": 8}]}


@pytest.mark.parametrize(("body", "status"), [(b"{", 400), (b"[]", 400), (b'{"model":"none"}', 404)])
async def test_what_is_no_call_is_refused_in_the_dialects_form(external: External, body: bytes, status: int) -> None:
    for path in ("/v1/chat/completions", "/v1/messages"):
        response = await external.client.post(path, content=body)
        assert response.status_code == status and response.json()["error"]["message"]


@pytest.mark.parametrize("provider", ["openai", "anthropic"])
@pytest.mark.parametrize("dialect", ["chat", "responses", "messages"])
@pytest.mark.parametrize("stream", [False, True])
async def test_a_provider_is_let_go_when_the_agent_leaves(external: External, dialect: str, provider: str, stream: bool) -> None:
    path, body = BODIES[dialect]
    call = asyncio.create_task(external.post(path, body | {"model": f"{provider}-silent", "stream": stream}))
    async with asyncio.timeout(20):
        await external.providers.arrived.wait()
        call.cancel()
        await external.providers.left.wait()


@pytest.mark.parametrize("how", ["cut", "overloaded"])
@pytest.mark.parametrize("provider", ["openai", "anthropic"])
@pytest.mark.parametrize("dialect", ["chat", "responses", "messages"])
async def test_a_stream_that_fails_in_the_middle_ends_with_an_error_and_without_its_end(
    external: External, dialect: str, provider: str, how: str
) -> None:
    path, body = BODIES[dialect]
    response = await external.post(path, body | {"model": f"{provider}-{how}", "stream": True}, rid=rid(dialect))
    assert response.status_code == 200
    answer = read_answer(DIALECTS[dialect], response.content, stream=True)
    assert answer["error"]["message"] and answer["choices"][0]["message"]["content"] == "echo h"
    assert answer["choices"][0]["finish_reason"] is None
    ends = (b"[DONE]", b"response.completed", b"message_stop", b"headrace.record")
    assert not any(end in response.content for end in ends)


async def test_a_stored_response_is_fetched_cancelled_and_deleted_under_our_id(external: External) -> None:
    ours = "resp_" + "2" * 48
    await external.post("/v1/responses", {"model": "judge", "input": "hi"}, rid=ours)
    for method, path, asked in (("GET", "", "GET"), ("POST", "/cancel", "POST"), ("DELETE", "", "DELETE")):
        response = await external.client.request(method, f"/v1/responses/{ours}{path}")
        assert response.status_code == 200 and response.json()["id"] == ours
        assert external.providers.asked_stored[-1] == (asked, f"/v1/responses/resp_p{path}")
    unknown = await external.client.get("/v1/responses/resp_x")
    assert unknown.status_code == 404 and unknown.json()["error"]["code"] == "response_not_found"

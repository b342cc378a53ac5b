"""Answers pass as the engine gave them, but for the record; recorded exchanges hold what was asked and what was given."""

import json

import pytest

from atdp.ids import verify_completion_id
from dataproxy.keyfiles import KeyFiles

MESSAGES = [{"role": "user", "content": "Grüße 你好 🙂"}]
BODY = {"model": "tiny", "messages": MESSAGES}
CHAT = "/v1/chat/completions"


async def test_a_json_answer_comes_without_its_record_and_is_journalled_with_it(served):
    async with served.client() as client:
        answer = await client.post(CHAT, json=BODY)
    assert answer.status_code == 200
    assert answer.json()["choices"][0]["message"]["content"] == MESSAGES[0]["content"]
    assert b"headrace_record" not in answer.content
    request, response = served.journal.only()
    assert (response.status, response.delivery, response.stream) == (200, "complete", False)
    assert response.body == answer.content
    assert json.loads(response.record)["rid"] == answer.json()["id"] == request.completion_id
    assert request.body == served.engine.calls[0].body
    assert (request.tenant, request.agent, request.key_id, request.model) == ("acme", "desk", "id-hr_acme", "tiny")
    assert request.started_us <= response.first_byte_us <= response.ended_us
    assert request.event_id == answer.headers["x-headrace-event"]


async def test_the_id_the_agent_sees_proves_which_event_it_belongs_to(served, run_dir):
    async with served.client() as client:
        answer = await client.post(CHAT, json=BODY)
    secret = KeyFiles(run_dir / "config").mac()
    assert verify_completion_id(secret, "acme", answer.json()["id"]) == answer.headers["x-headrace-event"]
    assert verify_completion_id(secret, "other", answer.json()["id"]) is None


@pytest.mark.parametrize("extra", [{}, {"stream_options": {"include_usage": True}}, {"n": 3}, {"max_tokens": 2}])
async def test_a_stream_is_byte_for_byte_what_the_engine_sends_without_a_record(served, extra):
    body = {**BODY, **extra, "stream": True}
    async with served.client() as client:
        recorded = await client.post(CHAT, json=body)
    async with served.client("hr_quiet") as client:
        plain = await client.post(CHAT, json=body)
    ids = [json.loads(answer.text.split("\n")[0][6:])["id"] for answer in (recorded, plain)]
    assert recorded.content.replace(ids[0].encode(), b"ID") == plain.content.replace(ids[1].encode(), b"ID")
    assert recorded.content.endswith(b"data: [DONE]\n\n")
    _, response = served.journal.only()
    assert response.body == recorded.content
    assert response.stream
    assert len(json.loads(response.record)["choices"]) == body.get("n", 1)


async def test_a_tenant_that_does_not_record_leaves_no_trace_and_asks_for_no_record(served):
    async with served.client("hr_quiet") as client:
        answer = await client.post(CHAT, json={**BODY, "stream": True})
    assert answer.status_code == 200
    assert served.journal.begun == {}
    assert "x-headrace-record" not in served.engine.calls[0].headers


async def test_engine_errors_pass_with_status_and_body_and_are_recorded(served):
    async with served.client() as client:
        answer = await client.post(CHAT, json={"model": "tiny", "messages": "none"})
    assert answer.status_code == 400
    assert answer.json()["object"] == "error"
    assert "x-headrace-error" not in answer.headers
    _, response = served.journal.only()
    assert (response.status, response.delivery, response.body) == (400, "engine_error", answer.content)


async def test_two_tenants_get_different_cache_salts_and_one_tenant_always_the_same(served):
    for key in ("hr_acme", "hr_other", "hr_acme"):
        async with served.client(key) as client:
            await client.post(CHAT, json=BODY)
    first, other, again = (call.headers["x-headrace-cache-salt"] for call in served.engine.calls)
    assert first == again != other
    assert {half.tenant for half in served.journal.begun.values()} == {"acme", "other"}


async def test_fields_that_reach_into_the_engine_are_taken_out_and_the_rest_is_kept(served):
    reaching = {"cache_salt": "x", "rid": "y", "input_ids": [1], "lora_path": "z", "bootstrap_host": "h", "priority": 9}
    unknown = {"metadata": {"a": [1, 2.50]}, "future_field": {"deep": [None]}}
    headers = {"x-override-rid": "mine", "x-sglext-return-input-ids": "1", "x-headrace-rid": "mine", "x-data-parallel-rank": "3"}
    async with served.client() as client:
        await client.post(CHAT, json={**BODY, **reaching, **unknown}, headers={**headers, "traceparent": "00-abc"})
    call = served.engine.calls[0]
    assert json.loads(call.body) == {**BODY, **unknown}
    assert call.headers["x-headrace-rid"].startswith("chatcmpl-")
    assert not {"x-override-rid", "x-sglext-return-input-ids", "x-data-parallel-rank", "authorization"} & set(call.headers)
    assert call.headers["traceparent"] == "00-abc"


async def test_a_body_without_such_fields_is_relayed_byte_for_byte(served):
    raw = b'{ "model":"tiny",\n "temperature": 1.0, "temperature": 0.50,"messages":[{"role":"user","content":"\\u00e9 a"}] }'
    async with served.client() as client:
        answer = await client.post(CHAT, content=raw, headers={"content-type": "application/json"})
    assert answer.status_code == 200
    assert served.engine.calls[0].body == raw


async def test_openai_sdk_streams_and_calls(served):
    import openai

    async with openai.AsyncOpenAI(base_url=f"{served.url}/v1", api_key="hr_acme", max_retries=0) as client:
        answer = await client.chat.completions.create(model="tiny", messages=MESSAGES)
        stream = await client.chat.completions.create(model="tiny", messages=MESSAGES, stream=True)
        text = "".join([chunk.choices[0].delta.content or "" async for chunk in stream])
        models = await client.models.list()
    assert answer.choices[0].message.content == text == MESSAGES[0]["content"]
    assert [model.id for model in models.data] == ["tiny"]

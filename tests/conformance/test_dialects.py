"""Each dialect: the record in its place, exact; the gateway's id; and nothing else changed."""

import asyncio

import httpx
import pytest

from tests.conformance.answers import parse
from tests.conformance.conftest import Target
from tests.conformance.dialects import DIALECTS, Dialect, ids, shape, stopped, text
from tests.engine_fixture import MODEL_NAME

LENGTH = {"chat": "length", "completions": "length", "responses": "incomplete", "messages": "max_tokens"}
STREAMS = pytest.mark.parametrize("stream", [False, True], ids=["json", "stream"])


@pytest.fixture(params=DIALECTS)
def dialect(request: pytest.FixtureRequest) -> Dialect:
    return DIALECTS[request.param]


@STREAMS
async def test_the_record_is_exact_and_the_answer_as_without_it(target: Target, dialect: Dialect, stream: bool) -> None:
    body = dialect.asks(12, stream=stream)
    plain = await target.ask(dialect.path, dialect.rid(), body, records=False)
    recorded = await target.ask(dialect.path, dialect.rid(), body)
    assert plain.record is None and plain.status == recorded.status == 200
    assert recorded.record is not None and "incomplete" not in recorded.record
    assert shape(recorded) == shape(plain) and text(recorded)
    choice = recorded.choice()
    assert 0 < len(choice.output_ids) == len(choice.logprobs) <= 12
    assert choice.versions == [(target.version, 0, len(choice.output_ids))]
    assert all(logprob <= 0 for logprob in choice.logprobs) and len(recorded.prompt_ids) > 3


@STREAMS
async def test_the_answer_bears_the_gateways_id_wherever_it_names_itself(target: Target, dialect: Dialect, stream: bool) -> None:
    for body in ({}, {"rid": "of-the-body", "request_id": "resp_of-the-body"}):
        rid = dialect.rid()
        answer = await target.ask(dialect.path, rid, dialect.asks(3, stream=stream, **body))
        assert ids(answer) == {rid} and answer.record is not None and answer.record["rid"] == rid
        assert b"of-the-body" not in answer.body


async def test_in_a_stream_the_record_comes_before_the_event_that_ends_it(target: Target, dialect: Dialect) -> None:
    answer = await target.ask(dialect.path, dialect.rid(), dialect.asks(6, stream=True))
    before, after = (part.decode() for part in (answer.body[: answer.record_at], answer.body[answer.record_at :]))
    assert not any(ending in before for ending in dialect.endings)
    assert any(ending in after.split("\n\n")[0] for ending in dialect.endings)


async def test_as_many_tokens_as_asked_for_and_the_engines_own_reason_in_the_record(target: Target, dialect: Dialect) -> None:
    for num_tokens in (1, 2, 5):
        answer = await target.ask(dialect.path, dialect.rid(), dialect.asks(num_tokens))
        choice = answer.choice()
        assert (len(choice.output_ids), choice.finish_reason, stopped(answer)) == (num_tokens, "length", LENGTH[dialect.name])


@STREAMS
async def test_no_logprobs_and_no_ids_where_the_agent_asked_for_none(target: Target, dialect: Dialect, stream: bool) -> None:
    answer = await target.ask(dialect.path, dialect.rid(), dialect.asks(3, stream=stream))
    assert b"token_logprobs" not in answer.body and b"output_ids" not in answer.body and b"token_ids" not in answer.body
    assert b'"logprobs":{' not in answer.body and b'"logprobs":[{' not in answer.body


@STREAMS
async def test_without_our_headers_there_is_no_trace_of_a_record(target: Target, dialect: Dialect, stream: bool) -> None:
    request = {"model": MODEL_NAME, **dialect.asks(3, stream=stream)}
    answer = parse(await target.client._http.post(dialect.path, json=request))
    assert answer.status == 200 and answer.record is None and b"headrace" not in answer.body


@STREAMS
async def test_an_error_is_a_400_in_the_dialects_form_without_a_record(target: Target, dialect: Dialect, stream: bool) -> None:
    question = next(iter(dialect.body))
    response = await _raw(target, dialect, {**dialect.asks(3, stream=stream), question: None})
    assert response.status_code == 400 and b"headrace_record" not in response.content
    problem = response.json()
    if dialect.name == "messages":
        assert problem["type"] == "error" and problem["error"]["type"] == "invalid_request_error"
    told = problem["error"]["message"] if "error" in problem else problem["message"]
    assert told and "site-packages" not in told


async def test_good_calls_are_answered_after_twenty_bad_ones(target: Target, dialect: Dialect) -> None:
    for _ in range(20):
        assert (await _raw(target, dialect, {"temperature": "hot"})).status_code == 400
    assert (await target.ask(dialect.path, dialect.rid(), dialect.asks(2))).status == 200


@STREAMS
async def test_an_aborted_answer_is_never_taken_for_a_complete_one(target: Target, dialect: Dialect, stream: bool) -> None:
    rid, said = dialect.rid(), {"completed", "incomplete", "end_turn", "max_tokens", "stop", "length"}
    body = dialect.asks(1500, temperature=1, ignore_eos=True, stream=stream)
    call = asyncio.create_task(target.ask(dialect.path, rid, body))
    await target.until(lambda state: state.num_in_flight > 0)
    answer = await target.abort_until_done(rid, call)
    assert answer.record is None or answer.record["incomplete"] == "aborted"
    assert answer.status == 500 or stopped(answer) not in said


async def test_a_client_that_leaves_a_stream_leaves_nothing_running(target: Target, dialect: Dialect) -> None:
    request = {"model": MODEL_NAME, **dialect.asks(1500, stream=True, ignore_eos=True)}
    headers = {"x-headrace-record": "1", "x-headrace-rid": dialect.rid()}
    async with target.client._http.stream("POST", dialect.path, json=request, headers=headers) as response:
        await anext(response.aiter_bytes())
        assert (await target.client.state()).num_in_flight == 1
    await target.until(lambda state: state.num_in_flight == 0)


async def test_a_multi_byte_answer_is_whole(target: Target, dialect: Dialect) -> None:
    asked = "naïve 你好 🎉 – Ünïcödé ☃ “quote” \\ and \n a break"
    question = next(iter(dialect.body))
    body = dialect.asks(40, stream=True)
    body[question] = asked if isinstance(body[question], str) else [{"role": "user", "content": asked}]
    streamed = await target.ask(dialect.path, dialect.rid(), body)
    whole = await target.ask(dialect.path, dialect.rid(), {**body, "stream": False})
    assert text(streamed) == text(whole)
    if target.kind == "fake":  # it says what it was asked: 40 of its tokens are 40 bytes, of which the last may be half a letter
        assert text(streamed).removesuffix("\ufffd") == asked.encode()[:40].decode(errors="ignore")


async def _raw(target: Target, dialect: Dialect, body: dict[str, object]) -> httpx.Response:
    headers = {"x-headrace-record": "1", "x-headrace-rid": dialect.rid()}
    return await target.client._http.post(dialect.path, json={"model": MODEL_NAME, **dialect.body, **body}, headers=headers)

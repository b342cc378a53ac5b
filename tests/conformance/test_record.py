"""The record: in the answer where it is ordered, exact, and no other byte touched."""

import asyncio
import uuid

import pytest

from tests.conformance.answers import normalised
from tests.conformance.conftest import Target

PARAMETERS = {"type": "object", "properties": {"to": {"type": "string"}}}
TOOL = {"type": "function", "function": {"name": "route", "description": "Send on", "parameters": PARAMETERS}}
MULTI_BYTE = [{"role": "user", "content": "naïve 你好 🎉 – Ünïcödé ☃ and a “quote” with \\ and \n a break"}]

SHAPES = {
    "json": {},
    "stream": {"stream": True},
    "stream_usage": {"stream": True, "stream_options": {"include_usage": True}},
    "n2": {"n": 2},
    "stream_n2": {"n": 2, "stream": True},
    "multi_byte": {"messages": MULTI_BYTE, "stream": True},
    "tools": {"tools": [TOOL], "tool_choice": "auto"},
    "stream_tools": {"tools": [TOOL], "tool_choice": "auto", "stream": True},
    "stop": {"stop": ["e"], "stream": True},
}


def rid() -> str:
    return f"chatcmpl-{uuid.uuid4().hex}"


@pytest.mark.parametrize("shape", SHAPES)
async def test_every_byte_but_the_record_is_as_without_it(target: Target, shape: str) -> None:
    body = {"max_tokens": 12, **SHAPES[shape]}
    for _ in range(5):  # a starved engine joins two events of either stream into one; a difference of ours would come each time
        plain = await target.chat(None, **body)
        recorded = await target.chat(rid(), **body)
        if normalised(recorded) == normalised(plain):
            break
    assert plain.record is None and recorded.record is not None
    assert recorded.status == plain.status == 200
    indices = range(body.get("n", 1))
    if len(indices) > 1 and recorded.is_stream:  # two choices interleave as the engine happens to step
        assert [recorded.text(i) for i in indices] == [plain.text(i) for i in indices]
        assert sorted(normalised(recorded)) and len(recorded.documents[0]) == len(plain.documents[0])
    else:
        assert normalised(recorded) == normalised(plain)


@pytest.mark.parametrize("shape", SHAPES)
async def test_ids_logprobs_and_spans_of_a_choice_have_one_length(target: Target, shape: str) -> None:
    body = {"max_tokens": 12, **SHAPES[shape]}
    answer = await target.chat(rid(), **body)
    assert answer.record is not None and "incomplete" not in answer.record
    assert [choice["index"] for choice in answer.record["choices"]] == list(range(body.get("n", 1)))
    for index in range(body.get("n", 1)):
        choice = answer.choice(index)
        assert 0 < len(choice.output_ids) == len(choice.logprobs) <= 12
        assert choice.versions == [(target.version, 0, len(choice.output_ids))]
        assert all(logprob <= 0 for logprob in choice.logprobs)
        assert choice.finish_reason == answer.finish_reason(index)
    assert len(answer.prompt_ids) > 3


async def test_the_record_comes_before_the_chunk_with_the_last_finish_reason(target: Target) -> None:
    for n in (1, 2):
        answer = await target.chat(rid(), stream=True, n=n, max_tokens=6)
        before, after = answer.body[: answer.record_at], answer.body[answer.record_at :]
        assert before.count(b'"finish_reason":"') == n - 1
        assert after.count(b'"finish_reason":"') == 1 and after.endswith(b"data: [DONE]\n\n")


async def test_the_answer_bears_the_gateways_rid_whatever_the_body_says(target: Target) -> None:
    for body in ({}, {"stream": True}, {"n": 2, "stream": True}, {"rid": "of-the-body"}):
        ours = rid()
        answer = await target.chat(ours, max_tokens=3, **body)
        assert answer.record is not None and answer.record["rid"] == ours
        assert {document["id"] for document in answer.documents} == {ours}


async def test_without_the_headers_there_is_no_record_and_no_trace_of_one(target: Target) -> None:
    for stream in (False, True):
        answer = await target.chat(None, stream=stream, max_tokens=3)
        assert answer.record is None and b"headrace" not in answer.body


async def test_an_agent_that_asks_for_no_logprobs_gets_none(target: Target) -> None:
    for stream in (False, True):
        answer = await target.chat(rid(), stream=stream, max_tokens=3)
        assert all(choice.get("logprobs") is None for document in answer.documents for choice in document["choices"])
        assert b"output_ids" not in answer.body and b"token_ids" not in answer.body


async def test_the_record_holds_the_sampling_parameters_after_defaults(target: Target) -> None:
    answer = await target.chat(rid(), max_tokens=4, temperature=0.7, top_p=0.9, frequency_penalty=0.5)
    assert answer.record is not None
    sampling = answer.record["sampling"]
    expected = {"temperature": 0.7, "top_p": 0.9, "top_k": -1, "min_p": 0.0, "frequency_penalty": 0.5, "presence_penalty": 0.0}
    assert {key: sampling[key] for key in expected} == expected
    assert sampling["max_new_tokens"] == 4 and sampling["grammar"] is False and sampling["repetition_penalty"] == 1.0


async def test_max_tokens_is_told_as_length(target: Target) -> None:
    answer = await target.chat(rid(), max_tokens=5)
    choice = answer.choice()
    assert (choice.finish_reason, len(choice.output_ids)) == ("length", 5)


async def test_an_aborted_generation_is_never_taken_for_a_complete_one(target: Target) -> None:
    for n in (1, 2):
        ours = rid()
        call = asyncio.create_task(target.chat(ours, stream=True, n=n, max_tokens=1500, temperature=1, ignore_eos=True))
        await target.until(lambda state: state.num_in_flight > 0)
        answer = await target.abort_until_done(ours, call)
        assert answer.record is None or answer.record["incomplete"] == "aborted"


async def test_a_rid_in_flight_is_refused_a_second_time(target: Target) -> None:
    ours = rid()
    call = asyncio.create_task(target.chat(ours, stream=True, max_tokens=1500, temperature=1, ignore_eos=True))
    await target.until(lambda state: state.num_in_flight > 0)
    second = await target.chat(ours, max_tokens=3)
    assert second.status == 400 and second.record is None
    await target.abort_until_done(ours, call)


async def test_an_error_has_no_record(target: Target) -> None:
    answer = await target.chat(rid(), messages="not a list")
    assert answer.status == 400 and answer.record is None

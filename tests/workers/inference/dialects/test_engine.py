"""Repairs that show in the prompt or in a refusal of real SGLang, and that stock requests get none of them."""

from typing import Any

import httpx
import pytest
from tokenizers import Tokenizer

from tests.conformance.answers import Answer, parse
from tests.conformance.dialects import CHAT, DIALECTS, MESSAGES, RESPONSES, USER, Dialect, stopped
from tests.engine_fixture import MODEL_NAME, RunningEngine

pytestmark = pytest.mark.engine

LONG = "a long story " * 2000
IMAGE = "data:image/png;base64,AAAA"
INPUT_IMAGE = {"type": "input_image", "image_url": IMAGE}
IMAGE_BLOCK = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}}
BROKEN = {"id": "c1", "type": "function", "function": {"name": "route", "arguments": '{"to": '}}
HISTORY = [
    *USER,
    {"role": "assistant", "content": None, "tool_calls": [BROKEN]},
    {"role": "tool", "tool_call_id": "c1", "content": "r"},
]


async def ask(engine: RunningEngine, dialect: Dialect, stock: bool = False, **body: Any) -> Answer:
    headers = {} if stock else {"x-headrace-record": "1", "x-headrace-rid": dialect.rid()}
    request = {"model": MODEL_NAME, **dialect.asks(4, **body)}
    async with httpx.AsyncClient(timeout=60) as http:
        return parse(await http.post(engine.url + dialect.path, json=request, headers=headers))


def prompt(engine: RunningEngine, answer: Answer) -> str:
    assert answer.status == 200, answer.body
    tokenizer = Tokenizer.from_file(str(engine.model_dir / "tokenizer.json"))
    return str(tokenizer.decode(answer.prompt_ids, skip_special_tokens=False))


async def test_system_and_developer_both_reach_the_model_in_order(sglang_engine: RunningEngine) -> None:
    first, second = {"role": "system", "content": "one"}, {"role": "developer", "content": "two"}
    told = prompt(sglang_engine, await ask(sglang_engine, CHAT, messages=[first, second, *USER]))
    assert told.startswith("<|im_start|>system\none<|im_end|>\n<|im_start|>system\ntwo<|im_end|>\n<|im_start|>user\n")
    alone = prompt(sglang_engine, await ask(sglang_engine, CHAT, messages=[second, *USER]))
    assert alone.startswith("<|im_start|>system\ntwo<|im_end|>\n<|im_start|>user\n")
    items = [{"role": "developer", "content": "two"}, *USER]
    assert "one" in (told := prompt(sglang_engine, await ask(sglang_engine, RESPONSES, instructions="one", input=items)))
    assert told.index("one") < told.index("two")


async def test_a_last_assistant_message_stays_the_assistants(sglang_engine: RunningEngine) -> None:
    said = {"role": "assistant", "content": "Once upon"}
    told = prompt(sglang_engine, await ask(sglang_engine, CHAT, messages=[*USER, said]))
    assert told.endswith("<|im_start|>assistant\nOnce upon<|im_end|>\n<|im_start|>assistant\n")
    continued = prompt(sglang_engine, await ask(sglang_engine, MESSAGES, messages=[*USER, said]))
    assert continued.endswith("<|im_start|>assistant\nOnce upon")  # Anthropic's prefill


async def test_a_tool_result_that_is_an_error_says_so(sglang_engine: RunningEngine) -> None:
    for content in ("no such river", [{"type": "text", "text": "no such river"}]):
        block = {"type": "tool_result", "tool_use_id": "t1", "content": content, "is_error": True}
        told = prompt(sglang_engine, await ask(sglang_engine, MESSAGES, messages=[*USER, {"role": "user", "content": [block]}]))
        assert "Error: no such river" in told


async def test_a_message_and_its_calls_are_one_turn(sglang_engine: RunningEngine) -> None:
    said = {"type": "message", "role": "assistant", "phase": "commentary", "content": [{"type": "output_text", "text": "I look."}]}
    call = {"type": "function_call", "call_id": "c1", "name": "route", "arguments": '{"to": '}
    items = [*USER, said, call, {"type": "function_call_output", "call_id": "c1", "output": "done"}]
    told = prompt(sglang_engine, await ask(sglang_engine, RESPONSES, input=items))
    assert told.count("<|im_start|>assistant") == 2  # that turn, and the answer to come


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("name", DIALECTS)
async def test_a_prompt_that_is_too_long_is_a_400_before_any_stream(sglang_engine: RunningEngine, name: str, stream: bool) -> None:
    dialect = DIALECTS[name]
    question = next(iter(dialect.body))
    value: Any = LONG if isinstance(dialect.body[question], str) else [{"role": "user", "content": LONG}]
    answer = await ask(sglang_engine, dialect, stream=stream, **{question: value})
    assert answer.status == 400 and not answer.is_stream and b"context length" in answer.body and answer.record is None
    if dialect is MESSAGES:
        assert b'"invalid_request_error"' in answer.body


@pytest.mark.parametrize(
    ("dialect", "body"),
    [
        (CHAT, {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": IMAGE}}]}]}),
        (RESPONSES, {"input": [{"role": "user", "content": [INPUT_IMAGE]}]}),
        (RESPONSES, {"input": [*USER, {"type": "function_call_output", "call_id": "c", "output": [INPUT_IMAGE]}]}),
        (RESPONSES, {"input": [{"role": "user", "content": [{"type": "input_file", "file_id": "f"}]}]}),
        (MESSAGES, {"messages": [{"role": "user", "content": [IMAGE_BLOCK]}]}),
    ],
)  # fmt: skip
async def test_what_a_text_model_cannot_read_is_a_400(sglang_engine: RunningEngine, dialect: Dialect, body: dict[str, Any]) -> None:
    answer = await ask(sglang_engine, dialect, **body)
    assert answer.status == 400 and (b"unsupported content type" in answer.body or b"input_file" in answer.body)


@pytest.mark.parametrize(
    "body",
    [
        {"regex": "(mill|weir)"},
        {"logit_bias": {"100": 100}},
        {"response_format": {"type": "json_schema", "json_schema": {"name": "place", "schema": {"enum": ["mill", "weir"]}}}},
        {"logprobs": True, "top_logprobs": 2},
        {"seed": 1, "n": 2, "temperature": 1},
    ],
)
async def test_sampling_fields_work_as_the_engine_does_them(sglang_engine: RunningEngine, body: dict[str, Any]) -> None:
    answer = await ask(sglang_engine, CHAT, max_tokens=30, **body)
    assert answer.record is not None and "incomplete" not in answer.record
    assert len(answer.record["choices"]) == body.get("n", 1)
    assert answer.record["sampling"]["grammar"] == ("regex" in body or "response_format" in body)
    if "logit_bias" in body:
        assert set(answer.choice().output_ids) == {100} and answer.record["sampling"]["logit_bias"] == {"100": 100.0}
    if "logprobs" in body:
        assert len(answer.documents[0]["choices"][0]["logprobs"]["content"]) == len(answer.choice().logprobs)
    if answer.record["sampling"]["grammar"]:
        assert answer.text().strip('"') in ("mill", "weir")


@pytest.mark.parametrize("n", [0, -1])
async def test_no_choices_are_a_400(sglang_engine: RunningEngine, n: int) -> None:
    for stream in (False, True):
        answer = await ask(sglang_engine, CHAT, n=n, stream=stream)
        assert answer.status == 400 and b"n must be at least 1" in answer.body


@pytest.mark.parametrize("field", [{"n": 100_000}, {"logprobs": True, "top_logprobs": 1_000_000}])
async def test_what_would_take_the_engine_from_others_is_a_400(sglang_engine: RunningEngine, field: dict[str, Any]) -> None:
    answer = await ask(sglang_engine, CHAT, **field)
    assert answer.status == 400 and b"must be at most 128" in answer.body
    assert (await ask(sglang_engine, CHAT, max_tokens=2)).status == 200


async def test_a_pattern_that_would_hold_the_engine_is_a_400(sglang_engine: RunningEngine) -> None:
    answer = await ask(sglang_engine, CHAT, stop_regex="(.*)*(.*)*$^zz")
    assert answer.status == 400 and b"stop_regex" in answer.body


async def test_prompt_ids_that_the_vocabulary_lacks_are_a_400(sglang_engine: RunningEngine) -> None:
    for prompt in ([1_000_000_000], [5, -3]):
        answer = await ask(sglang_engine, DIALECTS["completions"], prompt=prompt)
        assert answer.status == 400 and b"token ids must lie between" in answer.body
    assert (await ask(sglang_engine, CHAT, max_tokens=2)).status == 200


async def test_several_prompts_are_answered_and_recorded_as_not_to_be_trained_on(sglang_engine: RunningEngine) -> None:
    for stream in (False, True):
        answer = await ask(sglang_engine, DIALECTS["completions"], prompt=["a river", "a mill"], n=2, stream=stream)
        assert answer.record is not None and answer.record["incomplete"] == "more than one prompt in one call"
        assert [choice["index"] for choice in answer.record["choices"]] == [0, 1, 2, 3]


async def test_a_stock_request_gets_stock_answers(sglang_engine: RunningEngine) -> None:
    assert (await ask(sglang_engine, CHAT, stock=True, messages=HISTORY)).status == 400
    assert (await ask(sglang_engine, CHAT, messages=HISTORY)).status == 200
    cut = await ask(sglang_engine, RESPONSES, stock=True)
    assert cut.documents[0]["usage"]["output_tokens"] == 2  # of four: SGLang keeps room for two
    stream = await ask(sglang_engine, MESSAGES, stock=True, stream=True, messages=[{"role": "user", "content": LONG}])
    assert stream.status == 200 and b"event: error" in stream.body
    assert stopped(await ask(sglang_engine, MESSAGES, stock=True, max_tokens=60, stop_sequences=list("aeiou"))) == "end_turn"

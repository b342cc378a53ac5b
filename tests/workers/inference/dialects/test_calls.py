"""Reasoning and tool calls out of real SGLang in each dialect that has them; the record is what the scheduler had."""

import json
from typing import Any

import httpx
import pytest
from tokenizers import Tokenizer

from tests.conformance.answers import Answer, parse
from tests.conformance.conversations import ANSWER, DONE, ORDER, QUESTION, RESULT, THOUGHT, THOUGHT_OF_CALL, TWICE
from tests.conformance.dialects import CHAT, MESSAGES, RESPONSES, Dialect, calls, ids, reasoning, stopped, text
from tests.engine_fixture import MODEL_NAME, RunningEngine
from tests.workers.inference.test_exactness import assert_same

pytestmark = pytest.mark.engine

SCHEMA = {"type": "object", "properties": {"to": {"type": "string"}}, "required": ["to"]}
FUNCTION = {"name": "route", "description": "Send on", "parameters": SCHEMA}
TOOLS: dict[str, Any] = {
    "chat": {"type": "function", "function": FUNCTION},
    "responses": {"type": "function", **FUNCTION},
    "messages": {"name": "route", "description": "Send on", "input_schema": SCHEMA},
}
CALLED = {"chat": "tool_calls", "responses": "completed", "messages": "tool_use"}
DIALECTS = pytest.mark.parametrize("dialect", [CHAT, RESPONSES, MESSAGES], ids=lambda dialect: dialect.name)
STREAMS = pytest.mark.parametrize("stream", [False, True], ids=["json", "stream"])


async def ask(engine: RunningEngine, dialect: Dialect, **body: Any) -> Answer:
    """One call, whose record is compared with the tap before it is given back."""
    rid = dialect.rid()
    headers = {"x-headrace-record": "1", "x-headrace-rid": rid}
    request = {"model": MODEL_NAME, "temperature": 0, dialect.limit: 120, "tools": [TOOLS[dialect.name]], **body}
    async with httpx.AsyncClient(timeout=120) as http:
        answer = parse(await http.post(engine.url + dialect.path, json=request, headers=headers))
    assert answer.status == 200, answer.body
    assert_same(answer, engine.tapped(rid))
    assert ids(answer) == {rid}
    return answer


def asked(dialect: Dialect, content: str) -> dict[str, Any]:
    return {"input" if dialect is RESPONSES else "messages": [{"role": "user", "content": content}]}


def decoded(engine: RunningEngine, token_ids: list[int]) -> str:
    tokenizer = Tokenizer.from_file(str(engine.model_dir / "tokenizer.json"))
    return str(tokenizer.decode(token_ids, skip_special_tokens=False))


@DIALECTS
@STREAMS
async def test_reasoning_is_told_apart_and_recorded_whole(knowing_engine: RunningEngine, dialect: Dialect, stream: bool) -> None:
    answer = await ask(knowing_engine, dialect, stream=stream, **asked(dialect, QUESTION))
    assert (reasoning(answer).strip(), text(answer).strip()) == (THOUGHT, ANSWER)
    sampled = decoded(knowing_engine, answer.choice().output_ids)
    assert sampled == f"<think>\n{THOUGHT}\n</think>\n\n{ANSWER}<|im_end|>"
    assert answer.choice().finish_reason == "stop"


@DIALECTS
@STREAMS
async def test_a_call_after_reasoning_has_its_control_tokens_in_the_record(
    knowing_engine: RunningEngine, dialect: Dialect, stream: bool
) -> None:
    answer = await ask(knowing_engine, dialect, stream=stream, **asked(dialect, ORDER))
    assert reasoning(answer).strip() == THOUGHT_OF_CALL and not text(answer).strip()
    ((name, arguments),) = calls(answer)
    assert (name, json.loads(arguments), stopped(answer)) == ("route", {"to": "weir"}, CALLED[dialect.name])
    sampled = decoded(knowing_engine, answer.choice().output_ids)
    assert "<tool_call>" in sampled and sampled.endswith("</tool_call><|im_end|>")
    assert answer.choice().finish_reason == "stop"


@DIALECTS
@STREAMS
async def test_a_call_that_is_cut_is_recorded_as_cut(knowing_engine: RunningEngine, dialect: Dialect, stream: bool) -> None:
    whole = await ask(knowing_engine, dialect, **asked(dialect, TWICE))
    num_tokens = len(whole.choice().output_ids) - 8  # the first call is there, the second is not
    cut = await ask(knowing_engine, dialect, stream=stream, **{**asked(dialect, TWICE), dialect.limit: num_tokens})
    assert cut.choice().finish_reason == "length" and len(cut.choice().output_ids) == num_tokens
    assert stopped(cut) in ("length", "incomplete", "max_tokens")


@STREAMS
async def test_two_calls_and_their_results_in_chat(knowing_engine: RunningEngine, stream: bool) -> None:
    first = await ask(knowing_engine, CHAT, stream=stream, **asked(CHAT, TWICE))
    assert [json.loads(arguments)["to"] for _, arguments in calls(first)] == ["mill", "weir"]
    echoed = [
        {"id": f"c{at}", "type": "function", "function": {"name": name, "arguments": arguments}}
        for at, (name, arguments) in enumerate(calls(first))
    ]
    results = [{"role": "tool", "tool_call_id": f"c{at}", "content": RESULT} for at in range(2)]
    history = [{"role": "user", "content": TWICE}, {"role": "assistant", "content": None, "tool_calls": echoed}, *results]
    assert_done(knowing_engine, await ask(knowing_engine, CHAT, stream=stream, messages=history))


@STREAMS
async def test_two_calls_and_their_results_in_messages(knowing_engine: RunningEngine, stream: bool) -> None:
    first = await ask(knowing_engine, MESSAGES, stream=stream, **asked(MESSAGES, TWICE))
    assert [json.loads(arguments)["to"] for _, arguments in calls(first)] == ["mill", "weir"]
    echoed = [
        {"type": "tool_use", "id": f"c{at}", "name": name, "input": json.loads(arguments)}
        for at, (name, arguments) in enumerate(calls(first))
    ]
    results = [{"type": "tool_result", "tool_use_id": f"c{at}", "content": RESULT} for at in range(2)]
    history = [
        {"role": "user", "content": TWICE},
        {"role": "assistant", "content": echoed},
        {"role": "user", "content": results},
    ]
    assert_done(knowing_engine, await ask(knowing_engine, MESSAGES, stream=stream, messages=history))


@STREAMS
async def test_two_calls_and_their_results_in_a_stored_response(knowing_engine: RunningEngine, stream: bool) -> None:
    first = await ask(knowing_engine, RESPONSES, stream=stream, **asked(RESPONSES, TWICE))
    assert [json.loads(arguments)["to"] for _, arguments in calls(first)] == ["mill", "weir"]
    (first_id,) = ids(first)
    async with httpx.AsyncClient(timeout=60) as http:
        items = (await http.get(f"{knowing_engine.url}/v1/responses/{first_id}")).json()["output"]
    results = [{"type": "function_call_output", "call_id": item["call_id"], "output": RESULT} for item in items]
    chained = await ask(knowing_engine, RESPONSES, stream=stream, input=results, previous_response_id=first_id)
    assert_done(knowing_engine, chained)
    in_full = await ask(knowing_engine, RESPONSES, input=[{"role": "user", "content": TWICE}, *items, *results])
    assert in_full.prompt_ids == chained.prompt_ids


def assert_done(engine: RunningEngine, answer: Answer) -> None:
    """The model knew how to go on, so the prompt was what it should be: both calls one turn, both results one turn."""
    assert text(answer).strip() == DONE
    prompt = decoded(engine, answer.prompt_ids)
    history = prompt[prompt.index(TWICE) :]
    assert history.count("<|im_start|>assistant") == 2  # the calls, and the answer to come
    assert history.count("<tool_response>") == 2 and history.count("<|im_start|>user") == 1

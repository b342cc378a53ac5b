"""Chat by OpenAI's SDK, and the cases that agents of the field send: odd arguments, roles and contents."""

import json
from typing import Any

import openai
import pytest

from tests.conformance.conftest import Target, openai_on
from tests.conformance.conversations import TWICE
from tests.conformance.dialects import CHAT, QUESTION, USER
from tests.conformance.test_responses import TARGET
from tests.engine_fixture import MODEL_NAME

TOOL: Any = {"type": "function", "function": {"name": "route", "description": "Send on", "parameters": TARGET}}
CALLING: Any = {"tools": [TOOL], "max_tokens": 300}
STOP_ID = 2
ASKED: Any = [{"role": "user", "content": TWICE}]
NESTED = {"to": 'a "b" \\ \n {"c": "\\\\n"}'}


def ordered() -> Any:
    """A call's headers as the gateway sends them, but for the record, which it takes out."""
    return {"extra_headers": {"x-headrace-rid": CHAT.rid()}, "model": MODEL_NAME, "temperature": 0}


def called(arguments: Any, content: str | None = None) -> Any:
    call = {"id": "c1", "type": "function", "function": {"name": "route", "arguments": arguments}}
    return {"role": "assistant", "content": content, "tool_calls": [call]}


async def prompt(target: Target, *messages: Any, **body: Any) -> list[int]:
    """The prompt that the engine makes of a call."""
    answer = await target.ask(CHAT.path, CHAT.rid(), {"messages": list(messages), "max_tokens": 2, **body})
    assert answer.status == 200, answer.body
    return answer.prompt_ids


RESULT = {"role": "tool", "tool_call_id": "c1", "content": "it is done"}


async def test_arguments_as_string_and_as_object_are_one_message(target: Target) -> None:
    for value in ({"to": "weir"}, NESTED, {}):
        as_string = await prompt(target, *USER, called(json.dumps(value)), RESULT, tools=[TOOL])
        assert as_string == await prompt(target, *USER, called(value), RESULT, tools=[TOOL])
        assert as_string == await prompt(target, *USER, called(json.dumps(value, indent=1)), RESULT, tools=[TOOL])


@pytest.mark.parametrize("arguments", ['{"to": ', "", "[1]", "weir", "null"])
async def test_arguments_that_are_no_json_object_are_passed_on(target: Target, arguments: str) -> None:
    assert await prompt(target, *USER, called(arguments), RESULT, tools=[TOOL])


async def test_content_null_and_empty_are_one_turn_beside_tool_calls(target: Target) -> None:
    assert await prompt(target, *USER, called("{}", None), RESULT) == await prompt(target, *USER, called("{}", ""), RESULT)


async def test_content_as_parts_is_the_same_text(target: Target) -> None:
    parts = [{"type": "text", "text": QUESTION}]
    assert await prompt(target, {"role": "user", "content": parts}) == await prompt(target, *USER)


async def test_usage_comes_in_a_last_chunk_where_it_is_asked_for_and_nowhere_else(openai_sdk: openai.AsyncOpenAI) -> None:
    for options, num_usages in (({}, 0), ({"stream_options": {"include_usage": True}}, 1)):
        call: Any = {"messages": USER, "max_tokens": 4, "stream": True, **options, **ordered()}
        chunks = [chunk async for chunk in await openai_sdk.chat.completions.create(**call)]
        assert [bool(chunk.usage) for chunk in chunks] == [False] * (len(chunks) - num_usages) + [True] * num_usages
        if num_usages:
            assert chunks[-1].choices == [] and chunks[-1].usage.completion_tokens == 4


async def test_tool_calls_whole_and_streamed(knowing: Target) -> None:
    async with openai_on(knowing) as sdk:
        whole: Any = await sdk.chat.completions.create(messages=ASKED, **CALLING, **ordered())  # type: ignore[call-overload]
        stream: Any = await sdk.chat.completions.create(messages=ASKED, stream=True, **CALLING, **ordered())  # type: ignore[call-overload]
        chunks = [chunk async for chunk in stream]
    calls = whole.choices[0].message.tool_calls
    assert [json.loads(call.function.arguments)["to"] for call in calls] == ["mill", "weir"]
    found: dict[int, str] = {}
    for delta in (delta for chunk in chunks for delta in chunk.choices[0].delta.tool_calls or []):
        assert (delta.id is not None) == (delta.function.name is not None) == (delta.index not in found)
        found[delta.index] = found.get(delta.index, "") + (delta.function.arguments or "")
    assert [json.loads(arguments)["to"] for _, arguments in sorted(found.items())] == ["mill", "weir"]
    assert whole.choices[0].finish_reason == chunks[-1].choices[0].finish_reason == "tool_calls"


@pytest.mark.parametrize("stream", [False, True])
async def test_the_record_of_a_tool_call_has_its_control_tokens_and_the_engines_own_reason(knowing: Target, stream: bool) -> None:
    body = {"messages": ASKED, "temperature": 0, "stream": stream, **CALLING}
    answer = await knowing.ask(CHAT.path, CHAT.rid(), body)
    choice = answer.choice()
    assert answer.finish_reason() == "tool_calls" and choice.finish_reason == "stop"
    assert choice.output_ids.count(STOP_ID) == 1 and choice.output_ids[-1] == STOP_ID  # counted once
    assert len(choice.output_ids) == len(choice.logprobs)
    cut = await knowing.ask(CHAT.path, CHAT.rid(), {**body, "max_tokens": 9})
    assert cut.choice().finish_reason == cut.finish_reason() == "length" and len(cut.choice().output_ids) == 9
    assert cut.choice().output_ids == choice.output_ids[:9]  # the tokens of a call, though no call was told of


async def test_several_choices_are_recorded_each(target: Target, openai_sdk: openai.AsyncOpenAI) -> None:
    answer = await openai_sdk.chat.completions.create(messages=USER, n=3, max_tokens=4, **ordered())
    assert [choice.index for choice in answer.choices] == [0, 1, 2]
    recorded = await target.ask(CHAT.path, CHAT.rid(), CHAT.asks(4, n=3, temperature=1))
    assert recorded.record is not None and [choice["index"] for choice in recorded.record["choices"]] == [0, 1, 2]


async def test_a_content_part_that_is_not_known_is_a_clear_400(target: Target, openai_sdk: openai.AsyncOpenAI) -> None:
    if target.kind == "fake":  # it reads text and leaves the rest
        return
    odd: Any = [{"role": "user", "content": [{"type": "text", "text": "x"}, {"type": "odd", "odd": 1}]}]
    with pytest.raises(openai.BadRequestError, match=r"messages\.0\.content\.1\.type: unsupported value 'odd'"):
        await openai_sdk.chat.completions.create(messages=odd, max_tokens=2, **ordered())

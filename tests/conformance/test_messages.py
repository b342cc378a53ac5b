"""Anthropic Messages by Anthropic's SDK: blocks in all their forms, tools, stop reasons, the event stream, errors."""

from typing import Any

import anthropic
import pytest

from tests.conformance.conftest import Target, anthropic_on
from tests.conformance.conversations import ANSWER, DONE, RESULT, THOUGHT, TWICE
from tests.conformance.conversations import QUESTION as REASONED
from tests.conformance.dialects import MESSAGES, QUESTION
from tests.conformance.test_responses import TARGET
from tests.engine_fixture import MODEL_NAME

USER: Any = {"role": "user", "content": QUESTION}
TOOL: Any = {"name": "route", "description": "Send on", "input_schema": TARGET}
CALLING: Any = {"tools": [TOOL], "max_tokens": 300}
CALLED: Any = {"role": "assistant", "content": [{"type": "tool_use", "id": "t1", "name": "route", "input": {"to": "weir"}}]}


def ordered() -> Any:
    """A call's headers as the gateway sends them, but for the record, which it takes out."""
    headers, greedy = {"x-headrace-rid": MESSAGES.rid()}, {"temperature": 0}  # a field that the SDK no longer names
    return {"extra_headers": headers, "extra_body": greedy, "model": MODEL_NAME}


def result(content: Any, **fields: Any) -> Any:
    return {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1", "content": content, **fields}]}


async def prompt(target: Target, *messages: Any, **body: Any) -> list[int]:
    """The prompt that the engine makes of a call."""
    answer = await target.ask(MESSAGES.path, MESSAGES.rid(), {"messages": list(messages), "max_tokens": 2, **body})
    assert answer.status == 200, answer.body
    return answer.prompt_ids


async def test_the_forms_of_a_system_prompt_and_of_a_message_are_one_prompt(target: Target) -> None:
    plain = await prompt(target, USER, system="Be brief.")
    assert plain == await prompt(
        target, USER, system=[{"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}]
    )
    blocks = {"role": "user", "content": [{"type": "text", "text": QUESTION}]}
    assert plain == await prompt(target, blocks, system="Be brief.")
    assert plain != await prompt(target, USER)


async def test_the_forms_of_a_tool_result_are_one_prompt_and_an_error_is_not_lost(target: Target) -> None:
    plain = await prompt(target, USER, CALLED, result("it is done"), tools=[TOOL])
    assert plain == await prompt(target, USER, CALLED, result([{"type": "text", "text": "it is done"}]), tools=[TOOL])
    assert plain == await prompt(target, USER, CALLED, result("it is done", is_error=False), tools=[TOOL])
    if target.kind == "sglang":
        assert plain != await prompt(target, USER, CALLED, result("it is done", is_error=True), tools=[TOOL])


async def test_why_it_stopped(target: Target, anthropic_sdk: anthropic.AsyncAnthropic) -> None:
    cut = await anthropic_sdk.messages.create(messages=[USER], max_tokens=3, **ordered())
    assert (cut.stop_reason, cut.stop_sequence, cut.usage.output_tokens) == ("max_tokens", None, 3)
    stops = list("aeiou") if target.kind == "sglang" else ["river"]
    stopped = await anthropic_sdk.messages.create(messages=[USER], max_tokens=60, stop_sequences=stops, **ordered())
    assert stopped.stop_reason == "stop_sequence" and stopped.stop_sequence in stops
    assert all(stop not in block.text for stop in stops for block in stopped.content if block.type == "text")
    async with anthropic_sdk.messages.stream(messages=[USER], max_tokens=60, stop_sequences=stops, **ordered()) as stream:
        streamed = await stream.get_final_message()
    assert (streamed.stop_reason, streamed.stop_sequence) == ("stop_sequence", stopped.stop_sequence)


async def test_tool_calls_and_their_results(knowing: Target) -> None:
    asked: Any = {"role": "user", "content": TWICE}
    async with anthropic_on(knowing) as sdk:
        whole = await sdk.messages.create(messages=[asked], **CALLING, **ordered())
        async with sdk.messages.stream(messages=[asked], **CALLING, **ordered()) as stream:
            events = [event async for event in stream]
            streamed = await stream.get_final_message()
        for message in (whole, streamed):
            blocks = [block for block in message.content if block.type == "tool_use"]
            assert [(block.name, block.input) for block in blocks] == [("route", {"to": "mill"}), ("route", {"to": "weir"})]
            assert message.stop_reason == "tool_use" and len({block.id for block in blocks}) == 2
        starts = [event.index for event in events if event.type == "content_block_start"]
        assert starts == sorted(set(starts)) and starts == [event.index for event in events if event.type == "content_block_stop"]
        echoed: Any = {"role": "assistant", "content": [block.model_dump(exclude_none=True) for block in whole.content]}
        results: Any = [{"type": "tool_result", "tool_use_id": block.id, "content": RESULT} for block in blocks]
        history = [asked, echoed, {"role": "user", "content": results}]
        done = await sdk.messages.create(messages=history, **CALLING, **ordered())
    assert "".join(block.text for block in done.content if block.type == "text").strip() == DONE and done.stop_reason == "end_turn"


async def test_thinking_is_a_block_of_its_own(knowing: Target) -> None:
    asked: Any = [{"role": "user", "content": REASONED}]
    async with anthropic_on(knowing) as sdk:
        whole = await sdk.messages.create(messages=asked, max_tokens=300, **ordered())
        async with sdk.messages.stream(messages=asked, max_tokens=300, **ordered()) as stream:
            streamed = await stream.get_final_message()
    for message in (whole, streamed):
        thought, said = message.content
        assert thought.type == "thinking" and thought.thinking.strip() == THOUGHT
        assert said.type == "text" and said.text.strip() == ANSWER and message.stop_reason == "end_turn"


async def test_a_stream_tells_what_the_whole_answer_says(anthropic_sdk: anthropic.AsyncAnthropic) -> None:
    whole = await anthropic_sdk.messages.create(messages=[USER], max_tokens=8, **ordered())
    call = ordered()
    events = [event async for event in await anthropic_sdk.messages.create(messages=[USER], max_tokens=8, stream=True, **call)]
    kinds = [event.type for event in events]
    assert kinds[:2] == ["message_start", "content_block_start"] and set(kinds[2:-3]) == {"content_block_delta"}
    assert kinds[-3:] == ["content_block_stop", "message_delta", "message_stop"]
    start, ending = events[0], events[-2]
    assert start.type == "message_start" and ending.type == "message_delta"
    assert start.message.id == call["extra_headers"]["x-headrace-rid"] and whole.id != start.message.id
    text = "".join(event.delta.text for event in events if event.type == "content_block_delta" and event.delta.type == "text_delta")
    assert [block.text for block in whole.content if block.type == "text"] == [text]
    assert start.message.usage.input_tokens == whole.usage.input_tokens
    assert (ending.delta.stop_reason, ending.usage.output_tokens) == (whole.stop_reason, whole.usage.output_tokens)


async def test_counted_tokens_are_those_of_the_prompt(target: Target, anthropic_sdk: anthropic.AsyncAnthropic) -> None:
    asked: Any = {"messages": [USER, CALLED, result("it is done")], "system": "Be brief.", "tools": [TOOL]}
    counted = await anthropic_sdk.messages.count_tokens(model=MODEL_NAME, **asked)
    messages = asked.pop("messages")
    assert counted.input_tokens == len(await prompt(target, *messages, **asked))


async def test_earlier_thinking_is_taken(target: Target) -> None:
    thought = [{"type": "thinking", "thinking": "hm", "signature": "s"}, {"type": "text", "text": "yes"}]
    assert await prompt(target, USER, {"role": "assistant", "content": thought}, USER)


@pytest.mark.parametrize(
    "content", [[{"type": "document", "source": {"type": "text", "data": "x"}}], [{"type": "text", "text": "x"}, {"type": "odd"}]]
)
async def test_a_block_that_is_not_known_is_a_400_that_names_it(anthropic_sdk: anthropic.AsyncAnthropic, content: Any) -> None:
    for ask in (anthropic_sdk.messages.create, anthropic_sdk.messages.count_tokens):
        limit = {"max_tokens": 4} if ask == anthropic_sdk.messages.create else {}
        with pytest.raises(anthropic.BadRequestError, match=content[-1]["type"]) as failure:
            await ask(model=MODEL_NAME, messages=[{"role": "user", "content": content}], **limit)  # type: ignore[operator]
        assert failure.value.body["type"] == "error"  # type: ignore[index]
        assert failure.value.body["error"]["type"] == "invalid_request_error"  # type: ignore[index]

"""OpenAI Responses by OpenAI's SDK: input in all its forms, tools, stored conversations, the event stream."""

import json
from typing import Any

import openai
import pytest

from tests.conformance.conftest import Target, openai_on
from tests.conformance.conversations import ANSWER, DONE, RESULT, THOUGHT, TWICE
from tests.conformance.conversations import QUESTION as REASONED
from tests.conformance.dialects import QUESTION, RESPONSES
from tests.engine_fixture import MODEL_NAME

TARGET = {"type": "object", "properties": {"to": {"type": "string"}}, "required": ["to"]}
TOOL: Any = {"type": "function", "name": "route", "description": "Send on", "parameters": TARGET}
CALLING: Any = {"tools": [TOOL], "max_output_tokens": 300}


def ordered() -> Any:
    """A call's headers as the gateway sends them, but for the record, which it takes out."""
    return {"extra_headers": {"x-headrace-rid": RESPONSES.rid()}, "model": MODEL_NAME, "temperature": 0}


async def prompt(target: Target, **body: Any) -> list[int]:
    """The prompt that the engine makes of a call."""
    answer = await target.ask(RESPONSES.path, RESPONSES.rid(), {"max_output_tokens": 2, **body})
    assert answer.status == 200, answer.body
    return answer.prompt_ids


async def test_the_forms_of_an_input_are_one_prompt(target: Target) -> None:
    plain = await prompt(target, input=QUESTION)
    assert plain == await prompt(target, input=[{"role": "user", "content": QUESTION}])
    parts = [{"type": "input_text", "text": QUESTION}]
    assert plain == await prompt(target, input=[{"type": "message", "role": "user", "content": parts}])


async def test_instructions_are_the_system_message(target: Target) -> None:
    told = await prompt(target, input=QUESTION, instructions="Be brief.")
    assert told == await prompt(target, input=[{"role": "system", "content": "Be brief."}, {"role": "user", "content": QUESTION}])
    assert told != await prompt(target, input=QUESTION)


async def test_a_stored_conversation_goes_on_as_if_it_were_sent_in_full(target: Target, openai_sdk: openai.AsyncOpenAI) -> None:
    first = await openai_sdk.responses.create(input=QUESTION, max_output_tokens=8, **ordered())
    second = await openai_sdk.responses.create(input="And?", previous_response_id=first.id, max_output_tokens=8, **ordered())
    assert second.previous_response_id == first.id
    said = [{"role": "assistant", "content": [{"type": "output_text", "text": first.output_text}]}]
    again = [{"role": "assistant", "content": [{"type": "output_text", "text": second.output_text}]}]
    items = [{"role": "user", "content": QUESTION}, *said, {"role": "user", "content": "And?"}, *again]
    last = [{"role": "user", "content": "Last?"}]
    chained = await prompt(target, input="Last?", previous_response_id=second.id)
    assert chained == await prompt(target, input=[*items, *last])


async def test_what_is_stored_can_be_read_and_what_is_not_is_404(openai_sdk: openai.AsyncOpenAI) -> None:
    kept = await openai_sdk.responses.create(input=QUESTION, max_output_tokens=4, **ordered())
    assert (await openai_sdk.responses.retrieve(kept.id)).output_text == kept.output_text
    assert (await openai_sdk.responses.cancel(kept.id)).status == "incomplete"  # it has ended: nothing changes
    unkept = await openai_sdk.responses.create(input=QUESTION, max_output_tokens=4, store=False, **ordered())
    with pytest.raises(openai.NotFoundError):
        await openai_sdk.responses.retrieve(unkept.id)
    with pytest.raises(openai.NotFoundError):
        await openai_sdk.responses.create(input="And?", previous_response_id=unkept.id, **ordered())


async def test_what_is_deleted_is_gone(openai_sdk: openai.AsyncOpenAI) -> None:
    kept = await openai_sdk.responses.create(input=QUESTION, max_output_tokens=4, **ordered())
    await openai_sdk.responses.delete(kept.id)
    for ask in (openai_sdk.responses.retrieve, openai_sdk.responses.delete):
        with pytest.raises(openai.NotFoundError):
            await ask(kept.id)
    with pytest.raises(openai.NotFoundError):
        await openai_sdk.responses.create(input="And?", previous_response_id=kept.id, **ordered())


async def test_a_conversation_goes_on_although_its_beginning_is_deleted_meanwhile(target: Target) -> None:
    """The answer is stored with the whole conversation, which was looked up when it began."""
    first, second = RESPONSES.rid(), RESPONSES.rid()
    await target.ask(RESPONSES.path, first, {"input": QUESTION, "max_output_tokens": 4, "temperature": 0})
    body = {"model": MODEL_NAME, "input": "And?", "previous_response_id": first, "max_output_tokens": 200, "stream": True}
    headers, got = {"x-headrace-rid": second}, b""
    async with target.client._http.stream("POST", RESPONSES.path, json=body, headers=headers) as response:
        async for piece in response.aiter_bytes():
            if b"output_text.delta" not in got and b"output_text.delta" in got + piece:
                assert (await target.client._http.delete(f"{RESPONSES.path}/{first}")).status_code == 200
            got += piece
    assert b"event: response.incomplete" in got or b"event: response.completed" in got
    short = len(await prompt(target, input="Last?"))
    assert len(await prompt(target, input="Last?", previous_response_id=second)) > short + 30


async def test_tool_calls_and_their_results_go_on_in_a_stored_conversation(knowing: Target) -> None:
    async with openai_on(knowing) as sdk:
        asked = await sdk.responses.create(input=TWICE, **CALLING, **ordered())
        called = [item for item in asked.output if item.type == "function_call"]
        assert [(item.name, json.loads(item.arguments)) for item in called] == [
            ("route", {"to": "mill"}),
            ("route", {"to": "weir"}),
        ]
        assert asked.status == "completed" and len({item.call_id for item in called}) == 2
        results: Any = [{"type": "function_call_output", "call_id": item.call_id, "output": RESULT} for item in called]
        done = await sdk.responses.create(input=results, previous_response_id=asked.id, **CALLING, **ordered())
        assert done.output_text.strip() == DONE
        echoed = [item.model_dump(exclude_none=True) for item in called]
        in_full = await prompt(knowing, input=[{"role": "user", "content": TWICE}, *echoed, *results], tools=[TOOL])
        assert in_full == await prompt(knowing, input=results, previous_response_id=asked.id, tools=[TOOL])


async def test_reasoning_is_an_item_of_its_own(knowing: Target) -> None:
    async with openai_on(knowing) as sdk:
        whole = await sdk.responses.create(input=REASONED, max_output_tokens=300, **ordered())
        events = [
            event async for event in await sdk.responses.create(input=REASONED, max_output_tokens=300, stream=True, **ordered())
        ]
    thought, message = whole.output
    assert thought.type == "reasoning" and thought.content is not None and thought.content[0].text.strip() == THOUGHT
    assert message.type == "message" and whole.output_text.strip() == ANSWER
    told = "".join(event.delta for event in events if event.type == "response.reasoning_text.delta")
    assert told.strip() == THOUGHT and events[-1].type == "response.completed"
    assert [item.type for item in events[-1].response.output] == ["reasoning", "message"]


async def test_a_stream_tells_what_the_whole_answer_says(openai_sdk: openai.AsyncOpenAI) -> None:
    whole = await openai_sdk.responses.create(input=QUESTION, max_output_tokens=8, **ordered())
    call = ordered()
    async with openai_sdk.responses.stream(input=QUESTION, max_output_tokens=8, **call) as stream:
        events = [event async for event in stream]
    final = events[-1].response  # type: ignore[union-attr]
    assert [event.sequence_number for event in events] == list(range(len(events)))
    kinds = [event.type for event in events]
    opening = ["response.created", "response.in_progress", "response.output_item.added", "response.content_part.added"]
    closing = ["response.output_text.done", "response.content_part.done", "response.output_item.done", "response.incomplete"]
    assert kinds[:4] == opening and kinds[-4:] == closing and set(kinds[4:-4]) == {"response.output_text.delta"}
    assert {event.response.id for event in events if hasattr(event, "response")} == {call["extra_headers"]["x-headrace-rid"]}
    assert final.output_text == whole.output_text
    assert (final.usage.output_tokens, final.usage.input_tokens) == (8, whole.usage.input_tokens)  # type: ignore[union-attr]


async def test_streamed_tool_calls_come_in_deltas(knowing: Target) -> None:
    async with openai_on(knowing) as sdk, sdk.responses.stream(input=TWICE, **CALLING, **ordered()) as stream:
        events = [event async for event in stream]
        called = (await stream.get_final_response()).output
    assert [json.loads(call.arguments)["to"] for call in called if call.type == "function_call"] == ["mill", "weir"]
    for at, call in enumerate(called):
        mine = [event for event in events if getattr(event, "output_index", None) == at]
        assert call.type == "function_call" and mine[0].type == "response.output_item.added" and mine[0].item.id == call.id
        deltas = [event.delta for event in mine if event.type == "response.function_call_arguments.delta"]
        (done,) = [event for event in mine if event.type == "response.function_call_arguments.done"]
        assert "".join(deltas) == done.arguments == call.arguments and mine[-1].type == "response.output_item.done"


async def test_text_streams_although_tools_are_on(target: Target, openai_sdk: openai.AsyncOpenAI) -> None:
    """SGLang by itself keeps all text back to the end, where it knows whether a call follows."""
    headers = {"x-headrace-rid": RESPONSES.rid()}
    body = {"model": MODEL_NAME, "input": QUESTION, "tools": [TOOL], "max_output_tokens": 1500, "stream": True, "ignore_eos": True}
    seen = b""
    async with target.client._http.stream("POST", RESPONSES.path, json=body, headers=headers) as response:
        async for piece in response.aiter_bytes():
            seen += piece
            if b"response.output_text.delta" in seen:
                assert (await target.client.state()).num_in_flight == 1  # it came while the engine was at work
                break
    assert b"response.output_text.done" not in seen
    await target.until(lambda state: state.num_in_flight == 0)


async def test_structured_output(target: Target, openai_sdk: openai.AsyncOpenAI) -> None:
    if target.kind == "fake":  # it knows no grammars
        return
    wanted: Any = {"format": {"type": "json_schema", "name": "place", "schema": {"enum": ["mill", "weir"]}, "strict": True}}
    answer = await openai_sdk.responses.create(input=QUESTION, text=wanted, max_output_tokens=60, **ordered())
    assert json.loads(answer.output_text) in ("mill", "weir") and answer.status == "completed"


async def test_an_answer_that_is_cut_says_so(openai_sdk: openai.AsyncOpenAI) -> None:
    answer = await openai_sdk.responses.create(input=QUESTION, max_output_tokens=3, **ordered())
    assert answer.status == "incomplete" and answer.incomplete_details is not None
    assert answer.incomplete_details.reason == "max_output_tokens"
    assert answer.usage is not None and answer.usage.output_tokens == 3
    assert answer.usage.total_tokens == answer.usage.input_tokens + 3


async def test_a_background_response_is_refused_where_it_would_go_unrecorded(target: Target) -> None:
    answer = await target.ask(RESPONSES.path, RESPONSES.rid(), {"input": QUESTION, "background": True})
    assert answer.status == 400 and b"background" in answer.body


async def test_state_that_only_openai_has_is_refused_and_not_passed_over(openai_sdk: openai.AsyncOpenAI) -> None:
    with pytest.raises(openai.BadRequestError, match="conversation"):
        await openai_sdk.responses.create(input=QUESTION, conversation="conv_1", **ordered())


async def test_an_item_that_is_not_known_is_a_clear_400(openai_sdk: openai.AsyncOpenAI) -> None:
    with pytest.raises(openai.BadRequestError, match="item_reference"):
        await openai_sdk.responses.create(input=[{"type": "item_reference", "id": "msg_1"}], **ordered())

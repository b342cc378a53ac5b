"""OpenAI's Responses in the normal form: items of the assistant in a row are one message; streams however far they came."""

from typing import Any

import msgspec
import pytest

from dataproxy.drain.answers import read_answer
from dataproxy.drain.dialects import responses
from tests.dataproxy.exchanges import sse

REASONING = {
    "type": "reasoning",
    "id": "rs_1",
    "summary": [],
    "content": [{"type": "reasoning_text", "text": "hm"}],
    "encrypted_content": "sealed-blob-of-reasoning",
}
SAID = {
    "type": "message",
    "id": "msg_1",
    "role": "assistant",
    "status": "completed",
    "phase": "commentary",
    "content": [{"type": "output_text", "text": "I look.", "annotations": [], "logprobs": [{"token": "I"}]}],
}
CALL = {
    "type": "function_call",
    "id": "fc_1",
    "call_id": "call_1",
    "name": "weather",
    "arguments": '{"city":"Oslo"}',
    "status": "completed",
}
RESULT = {"type": "function_call_output", "call_id": "call_1", "output": "rain"}
MESSAGE = {
    "role": "assistant",
    "content": "I look.",
    "reasoning_content": "hm",
    "sealed_reasoning": ["sealed-blob-of-reasoning"],
    "tool_calls": [{"id": "call_1", "type": "function", "function": {"name": "weather", "arguments": '{"city":"Oslo"}'}}],
}


def body(*items: Any, **request: Any) -> dict[str, Any]:
    return responses.request({"model": "m", "input": list(items), **request}).body


def answered(status: str = "completed", *output: Any, **more: Any) -> dict[str, Any]:
    return {"id": "resp_1", "object": "response", "status": status, "output": list(output), **more}


def test_a_text_is_a_users_message_behind_the_instructions() -> None:
    found = responses.request(
        {"model": "m", "input": "hi", "instructions": "Be brief.", "previous_response_id": "resp_0", "user": "u"}
    )
    assert found.body["messages"] == [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "hi"}]
    assert (found.previous, found.user) == ("resp_0", "u")
    assert found.body["previous_response_id"] == "resp_0" and "input" not in found.body


def test_items_are_messages_and_the_assistants_in_a_row_are_one() -> None:
    asked = {"role": "user", "content": [{"type": "input_text", "text": "Weather?"}]}
    assert body(asked, REASONING, SAID, CALL, RESULT, {"role": "developer", "content": "d"})["messages"] == [
        {"role": "user", "content": "Weather?"},
        MESSAGE,
        {"role": "tool", "tool_call_id": "call_1", "content": "rain"},
        {"role": "developer", "content": "d"},
    ]


def test_the_answers_items_are_the_message_that_an_agent_echoes() -> None:
    (choice,) = responses.answer(answered("completed", REASONING, SAID, CALL))["choices"]
    assert choice == {"index": 0, "message": MESSAGE, "finish_reason": "tool_calls", "given_finish_reason": "completed"}


def test_images_files_and_unknown_items_are_kept() -> None:
    image = {"type": "input_image", "image_url": "https://example.com/a.png", "detail": "low"}
    file = {"type": "input_file", "filename": "a.pdf", "file_data": "data:application/pdf;base64,QUJD"}
    reference, search = {"type": "item_reference", "id": "msg_9"}, {"type": "web_search_call", "id": "ws_1", "status": "completed"}
    found = body({"role": "user", "content": [image, file]}, reference, search, SAID)["messages"]
    assert found[0]["content"] == [
        {"type": "image_url", "image_url": {"url": "https://example.com/a.png", "detail": "low"}},
        {"type": "file", "file": {"filename": "a.pdf", "file_data": "data:application/pdf;base64,QUJD"}},
    ]
    assert found[1] == {"role": "item", "content": [reference]}
    assert found[2] == {"role": "assistant", "content": [search, {"type": "text", "text": "I look."}]}


def test_tools_of_the_agent_take_the_form_of_chat_and_others_stay() -> None:
    tools = [{"type": "function", "name": "f", "parameters": {}, "strict": True}, {"type": "web_search"}]
    found = body(tools=tools)["tools"]
    assert found == [{"type": "function", "function": {"name": "f", "parameters": {}, "strict": True}}, {"type": "web_search"}]


@pytest.mark.parametrize(
    ("status", "details", "reason", "given"),
    [
        ("completed", None, "stop", "completed"),
        ("incomplete", {"reason": "max_output_tokens"}, "length", "incomplete: max_output_tokens"),
        ("incomplete", {"reason": "content_filter"}, "content_filter", "incomplete: content_filter"),
        ("failed", None, "abort", "failed"),
        ("cancelled", None, "abort", "cancelled"),
    ],
)
def test_a_status_is_a_finish_reason_and_the_given_word_stays(status: str, details: Any, reason: str, given: str) -> None:
    (choice,) = responses.answer(answered(status, SAID, incomplete_details=details))["choices"]
    assert (choice["finish_reason"], choice["given_finish_reason"]) == (reason, given)


def test_what_the_response_says_again_of_the_request_is_not_kept_and_what_is_new_is() -> None:
    value = responses.answer(answered("completed", SAID, instructions="Be brief.", tools=[{}], temperature=1, x_new=1, error=None))
    assert {"instructions", "tools", "temperature", "error"}.isdisjoint(value) and value["x_new"] == 1


DELTAS: list[dict[str, Any]] = [
    {"type": "response.created", "response": answered("in_progress")},
    {"type": "response.output_item.added", "output_index": 0, "item": {"type": "reasoning", "id": "rs_1", "summary": []}},
    {"type": "response.reasoning_text.delta", "output_index": 0, "content_index": 0, "delta": "h"},
    {"type": "response.reasoning_text.delta", "output_index": 0, "content_index": 0, "delta": "m"},
    {"type": "response.output_item.done", "output_index": 0, "item": REASONING},
    {"type": "response.output_item.added", "output_index": 1, "item": {"type": "message", "role": "assistant", "content": []}},
    {"type": "response.content_part.added", "output_index": 1, "content_index": 0, "part": {"type": "output_text", "text": ""}},
    {"type": "response.output_text.delta", "output_index": 1, "content_index": 0, "delta": "I "},
    {"type": "response.output_text.delta", "output_index": 1, "content_index": 0, "delta": "look."},
    {"type": "response.output_text.done", "output_index": 1, "content_index": 0, "text": "I look."},
    {"type": "response.output_item.added", "output_index": 2, "item": {**CALL, "arguments": ""}},
    {"type": "response.function_call_arguments.delta", "output_index": 2, "delta": '{"city":'},
    {"type": "response.function_call_arguments.delta", "output_index": 2, "delta": '"Oslo"}'},
]
LAST = {
    "type": "response.completed",
    "response": answered("completed", REASONING, SAID, CALL, usage={"input_tokens": 3, "output_tokens": 4}),
}


def test_the_last_event_of_a_stream_holds_the_answer() -> None:
    answer = read_answer(responses, sse(*DELTAS, LAST), stream=True)
    assert answer["choices"][0]["message"] == MESSAGE
    assert answer["usage"]["prompt_tokens"] == 3 and answer["usage"]["completion_tokens"] == 4


@pytest.mark.parametrize("num_events", range(2, len(DELTAS) + 1))
def test_a_stream_cut_off_anywhere_keeps_what_came(num_events: int) -> None:
    (choice,) = read_answer(responses, sse(*DELTAS[:num_events]), stream=True)["choices"]
    assert choice["finish_reason"] is None
    assert choice["message"].get("reasoning_content", "") == ("" if num_events < 3 else "h" if num_events == 3 else "hm")
    assert (choice["message"]["content"] or "") == ("" if num_events < 8 else "I " if num_events == 8 else "I look.")
    if num_events == 12:
        assert choice["message"]["tool_calls"][0]["function"]["arguments"] == '{"city":'


def test_an_error_in_a_stream_is_kept() -> None:
    failed = {"type": "response.failed", "response": answered("failed", error={"code": "server_error", "message": "died"})}
    assert read_answer(responses, sse(DELTAS[0], failed), stream=True)["error"]["message"] == "died"
    ours = {"type": "error", "code": "upstream", "message": "died", "sequence_number": 3}
    assert read_answer(responses, sse(DELTAS[0], ours), stream=True)["error"] == {"code": "upstream", "message": "died"}


def test_an_error_of_the_engine_is_an_error() -> None:
    error = {"object": "error", "message": "no such response", "type": "invalid_request_error", "param": None, "code": 404}
    assert read_answer(responses, msgspec.json.encode(error), stream=False) == {"error": error}

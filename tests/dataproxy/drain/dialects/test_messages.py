"""Anthropic's Messages in the normal form: systems, tools, tool results in order, thinking, and streams however far they came."""

from typing import Any

import msgspec
import pytest

from dataproxy.drain.answers import read_answer
from dataproxy.drain.dialects import messages
from tests.dataproxy.exchanges import sse

USE = {"type": "tool_use", "id": "toolu_1", "name": "weather", "input": {"city": "Oslo", "note": '\\"\n'}}


def normal(*turns: dict[str, Any], **request: Any) -> dict[str, Any]:
    return messages.request({"model": "m", "max_tokens": 5, "messages": list(turns), **request}).body


def test_system_blocks_and_tools_take_the_form_of_chat() -> None:
    system = [{"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}]
    tools = [{"name": "weather", "description": "d", "input_schema": {"type": "object"}}, {"type": "web_search_1", "name": "s"}]
    body = normal({"role": "user", "content": "hi"}, system=system, tools=tools, x_new=1)
    assert body["messages"] == [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "hi"}]
    function = {"name": "weather", "description": "d", "parameters": {"type": "object"}}
    assert body["tools"] == [{"type": "function", "function": function}, {"type": "web_search_1", "name": "s"}]
    assert {k: v for k, v in body.items() if k not in ("messages", "tools")} == {"model": "m", "max_tokens": 5, "x_new": 1}
    assert "system" not in body


def test_tool_results_stand_in_order_between_what_the_user_says() -> None:
    turn = {
        "role": "user",
        "content": [
            {"type": "text", "text": "before"},
            {"type": "tool_result", "tool_use_id": "toolu_1", "content": [{"type": "text", "text": "rain"}], "is_error": True},
            {"type": "tool_result", "tool_use_id": "toolu_2", "content": "sun"},
            {"type": "text", "text": "after", "cache_control": {"type": "ephemeral"}},
        ],
    }
    assert normal(turn)["messages"] == [
        {"role": "user", "content": "before"},
        {"role": "tool", "tool_call_id": "toolu_1", "content": "rain", "is_error": True},
        {"role": "tool", "tool_call_id": "toolu_2", "content": "sun"},
        {"role": "user", "content": "after"},
    ]


def test_an_assistants_turn_has_text_thinking_and_calls() -> None:
    thinking = {"type": "thinking", "thinking": "hm", "signature": "c2ln"}
    turn = {"role": "assistant", "content": [thinking, {"type": "text", "text": "I look."}, USE]}
    (message,) = normal(turn)["messages"]
    arguments = message.pop("tool_calls")[0]["function"]["arguments"]
    assert message == {"role": "assistant", "content": "I look.", "reasoning_content": "hm", "sealed_reasoning": ["c2ln"]}
    assert msgspec.json.decode(arguments) == USE["input"]


@pytest.mark.parametrize("content", [None, "", [], "text", [{"type": "new_kind", "x": 1}], ["no object"], 7])
def test_contents_of_any_kind_survive(content: Any) -> None:
    (message,) = normal({"role": "user", "content": content})["messages"]
    assert message["role"] == "user"
    if content and isinstance(content[0] if isinstance(content, list) else 0, dict):
        assert message["content"] == content


def test_an_image_is_a_part_by_its_url() -> None:
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/jpeg", "data": "QUJD"}}
    linked = {"type": "image", "source": {"type": "url", "url": "https://example.com/a.png"}}
    (message,) = normal({"role": "user", "content": [image, linked]})["messages"]
    assert [part["image_url"]["url"] for part in message["content"]] == ["data:image/jpeg;base64,QUJD", "https://example.com/a.png"]


EVENTS: list[dict[str, Any]] = [
    {"type": "message_start", "message": {"id": "msg_1", "type": "message", "role": "assistant", "content": [], "model": "tiny",
                                          "usage": {"input_tokens": 9, "output_tokens": 0, "cache_read_input_tokens": 4}}},
    {"type": "ping"},
    {"type": "content_block_start", "index": 0, "content_block": {"type": "thinking", "thinking": ""}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "thinking_delta", "thinking": "h"}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "thinking_delta", "thinking": "m"}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "signature_delta", "signature": "c2ln"}},
    {"type": "content_block_stop", "index": 0},
    {"type": "content_block_start", "index": 1, "content_block": {"type": "text", "text": ""}},
    {"type": "content_block_delta", "index": 1, "delta": {"type": "text_delta", "text": "I "}},
    {"type": "content_block_delta", "index": 1, "delta": {"type": "text_delta", "text": "look 中."}},
    {"type": "content_block_stop", "index": 1},
    {"type": "content_block_start", "index": 2, "content_block": USE | {"input": {}}},
    {"type": "content_block_delta", "index": 2, "delta": {"type": "input_json_delta", "partial_json": '{"city": '}},
    {"type": "content_block_delta", "index": 2, "delta": {"type": "input_json_delta", "partial_json": '"Oslo"}'}},
    {"type": "content_block_stop", "index": 2},
    {"type": "message_delta", "delta": {"stop_reason": "tool_use", "stop_sequence": None}, "usage": {"output_tokens": 7}},
    {"type": "message_stop"},
]  # fmt: skip


def test_a_stream_is_the_message_that_would_have_come_whole() -> None:
    answer = read_answer(messages, sse(*EVENTS), stream=True)
    (choice,) = answer["choices"]
    call = {"id": "toolu_1", "type": "function", "function": {"name": "weather", "arguments": '{"city": "Oslo"}'}}
    assert choice == {
        "index": 0,
        "message": {
            "role": "assistant",
            "content": "I look 中.",
            "reasoning_content": "hm",
            "sealed_reasoning": ["c2ln"],
            "tool_calls": [call],
        },
        "finish_reason": "tool_calls",
        "given_finish_reason": "tool_use",
    }
    assert answer["usage"]["prompt_tokens"] == 13 and answer["usage"]["completion_tokens"] == 7 and answer["id"] == "msg_1"


@pytest.mark.parametrize("num_events", range(len(EVENTS)))
def test_a_stream_cut_off_anywhere_keeps_what_came(num_events: int) -> None:
    answer = read_answer(messages, sse(*EVENTS[:num_events]), stream=True)
    if num_events == 0:
        assert answer == {}
        return
    (choice,) = answer["choices"]
    assert (choice["finish_reason"] is None) == (num_events < 16)
    assert (choice["message"]["content"] is None) == (num_events < 8)
    if num_events == 13:
        assert choice["message"]["tool_calls"][0]["function"]["arguments"] == '{"city": '


@pytest.mark.parametrize(
    ("given", "reason"),
    [("end_turn", "stop"), ("stop_sequence", "stop"), ("max_tokens", "length"), ("refusal", "content_filter"), ("new", "new")],
)
def test_stop_reasons_are_finish_reasons_and_the_given_word_stays(given: str, reason: str) -> None:
    body = {"type": "message", "role": "assistant", "content": [{"type": "text", "text": "x"}], "stop_reason": given}
    (choice,) = messages.answer(body)["choices"]
    assert (choice["finish_reason"], choice.get("given_finish_reason", given)) == (reason, given)


def test_errors_are_kept_whole_or_in_a_stream() -> None:
    error = {"type": "overloaded_error", "message": "later"}
    assert read_answer(messages, msgspec.json.encode({"type": "error", "error": error}), stream=False)["error"] == error
    streamed = read_answer(messages, sse(*EVENTS[:9], {"type": "error", "error": error}), stream=True)
    assert streamed["error"] == error and streamed["choices"][0]["message"]["content"] == "I "

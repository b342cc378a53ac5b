"""Chat completions: answers put together from streams, however they are framed."""

from typing import Any

import msgspec
import pytest

from dataproxy.drain.answers import read_answer
from dataproxy.drain.dialects import chat
from dataproxy.drain.sse import event_data


def chunk(delta: dict[str, Any], index: int = 0, finish_reason: str | None = None, **more: Any) -> dict[str, Any]:
    return {
        "id": "c",
        "object": "chat.completion.chunk",
        "choices": [{"index": index, "delta": delta, "finish_reason": finish_reason}],
        **more,
    }


def stream(*chunks: Any, newline: bytes = b"\n") -> bytes:
    events = [b"data: " + (c if isinstance(c, bytes) else msgspec.json.encode(c)) + newline * 2 for c in chunks]
    return b"".join(events) + b"data: [DONE]" + newline * 2


@pytest.mark.parametrize("newline", [b"\n", b"\r\n", b"\r"])
def test_text_reasoning_and_finish_reason_are_put_together(newline: bytes) -> None:
    body = stream(
        chunk({"role": "assistant", "content": ""}),
        chunk({"reasoning_content": "hm, "}),
        chunk({"reasoning_content": "yes"}),
        chunk({"content": "naïve "}),
        chunk({"content": "café 中"}),
        chunk({}, finish_reason="stop"),
        {"id": "c", "choices": [], "usage": {"total_tokens": 3}},
        newline=newline,
    )
    answer = read_answer(chat, body, stream=True)
    assert answer["choices"] == [
        {
            "index": 0,
            "message": {"role": "assistant", "content": "naïve café 中", "reasoning_content": "hm, yes"},
            "finish_reason": "stop",
        }
    ]
    assert answer["usage"] == {"total_tokens": 3}


def test_tool_calls_come_in_pieces_by_index() -> None:
    body = stream(
        chunk({"tool_calls": [{"index": 0, "id": "a", "type": "function", "function": {"name": "f", "arguments": ""}}]}),
        chunk({"tool_calls": [{"index": 1, "id": "b", "type": "function", "function": {"name": "g", "arguments": '{"x":'}}]}),
        chunk({"tool_calls": [{"index": 0, "function": {"arguments": "{}"}}, {"index": 1, "function": {"arguments": "1}"}}]}),
        chunk({}, finish_reason="tool_calls"),
    )
    calls = read_answer(chat, body, stream=True)["choices"][0]["message"]["tool_calls"]
    assert [(c["id"], c["function"]) for c in calls] == [
        ("a", {"name": "f", "arguments": "{}"}),
        ("b", {"name": "g", "arguments": '{"x":1}'}),
    ]


def test_choices_of_n_are_kept_apart_and_unknown_fields_survive() -> None:
    body = stream(chunk({"content": "a"}, 0, x_new=1), chunk({"content": "b"}, 1), chunk({"content": "A"}, 0))
    answer = read_answer(chat, body, stream=True)
    assert [c["message"]["content"] for c in answer["choices"]] == ["aA", "b"] and answer["x_new"] == 1


def test_a_stream_cut_in_the_middle_keeps_what_came() -> None:
    whole = stream(chunk({"content": "one "}), chunk({"content": "two"}))
    cut = whole[: whole.index(b"two")]
    answer = read_answer(chat, cut, stream=True)
    assert answer["choices"][0]["message"]["content"] == "one " and len(answer["unparsed"]) == 1


def test_an_error_event_in_a_stream_is_kept() -> None:
    body = stream(chunk({"content": "x"})) + b'data: {"error": {"message": "died"}}\n\n'
    assert read_answer(chat, body, stream=True)["error"] == {"message": "died"}


@pytest.mark.parametrize("body", [b"", b"<html>", b"[1]", b"\xff\xfe", b"[" * 100_000])
def test_what_is_no_answer_is_kept_as_text(body: bytes) -> None:
    assert read_answer(chat, body, stream=False) in ({}, {"text": body.decode(errors="replace")})


def test_framing_follows_the_standard() -> None:
    body = b": hi\nevent: x\ndata: 1\ndata: 2\n\n\n\nid: 7\r\ndata:3\r\n\r\nretry: 5\n\ndata\n\ndata: cut"
    assert list(event_data(body)) == [b"1\n2", b"3", b"", b"cut"]

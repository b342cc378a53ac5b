"""A value of its own in every field of a call in which one was ever forgotten: none is left, in any dialect, whole or streamed."""

import base64
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from dataproxy.admit import AdmissionPolicy
from dataproxy.digests import KeyedDigests
from dataproxy.drain.exchange import RawExchange
from dataproxy.drain.govern import Rules, govern
from dataproxy.redact import Redactor
from tests.dataproxy.exchanges import call_in, sse

Plant = Callable[[str], str]
Body = dict[str, Any]


class Canaries:
    """Hands out an address for each field."""

    def __init__(self) -> None:
        self.planted: dict[str, str] = {}

    def __call__(self, field: str) -> str:
        return self.planted.setdefault(field, f"canary{len(self.planted)}@example.com")


def beside(plant: Plant) -> Body:
    """What stands beside the messages in every dialect, known fields and unknown ones."""
    text = base64.b64encode(f"name,mail\nana,{plant('data URL of text')}".encode()).decode()
    return {
        "user": plant("user"),
        "metadata": {"order": plant("metadata"), plant("key of metadata"): "yes", "deep": [{"n": [plant("deep metadata")]}]},
        "stop": [plant("stop")],
        "unknown_field": {"note": plant("unknown field"), "attached": f"data:text/csv;base64,{text}"},
    }


def arguments(plant: Plant, name: str) -> str:
    inner = msgspec.json.encode({"to": plant(f"{name}, JSON in JSON")}).decode()
    return msgspec.json.encode(
        {"to": plant(name), "url": f"https://x.example/?mail={plant(f'{name}, URL')}", "raw": inner}
    ).decode()


def schema(plant: Plant) -> Body:
    properties = {"to": {"type": "string", "description": plant("tool schema"), "default": plant("default of a tool")}}
    return {"type": "object", "properties": properties, "examples": [plant("example of a tool")]}


def chat(plant: Plant) -> tuple[Body, list[Body], Body]:
    call = {"id": "t1", "type": "function", "function": {"name": "find", "arguments": arguments(plant, "earlier arguments")}}
    parts = [
        {"type": "text", "text": plant("content")},
        {"type": "image_url", "image_url": {"url": f"https://x.example/i.png?for={plant('image URL')}", "detail": "low"}},
        {"type": "file", "file": {"filename": f"{plant('file name')}.pdf", "file_id": "f1"}},
    ]
    messages = [
        {"role": "system", "content": plant("system")},
        {"role": "user", "name": plant("name"), "content": parts},
        {"role": "assistant", "content": None, "reasoning_content": plant("earlier reasoning"), "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "t1", "content": plant("tool result")},
    ]
    tool = {"type": "function", "function": {"name": "find", "description": plant("tool"), "parameters": schema(plant)}}
    said = {"role": "assistant", "content": plant("answer"), "reasoning_content": plant("reasoning"), "refusal": plant("refusal")}
    said["tool_calls"] = [
        {"index": 0, "id": "t2", "type": "function", "function": {"name": "send", "arguments": arguments(plant, "args")}}
    ]
    spelled = {
        "content": [{"token": plant("token"), "logprob": -1.0, "top_logprobs": [{"token": plant("top-k"), "logprob": -2.0}]}]
    }
    choice = {"index": 0, "finish_reason": "stop", "logprobs": spelled}
    chunk = {"choices": [{**choice, "delta": said}], "unknown": plant("unknown in the answer")}
    return (
        {"messages": messages, "tools": [tool]},
        [chunk],
        {"choices": [{**choice, "message": said}], "x": plant("x in the answer")},
    )


def completions(plant: Plant) -> tuple[Body, list[Body], Body]:
    choice = {"index": 0, "text": plant("answer"), "finish_reason": "stop", "logprobs": {"tokens": [plant("token")]}}
    return (
        {"prompt": [plant("prompt"), plant("second prompt")], "suffix": plant("suffix")},
        [{"choices": [choice]}],
        {"choices": [choice]},
    )


def responses(plant: Plant) -> tuple[Body, list[Body], Body]:
    items = [
        {"role": "user", "content": [{"type": "input_text", "text": plant("content")},
                                     {"type": "input_file", "filename": f"{plant('file name')}.pdf",
                                      "file_url": f"https://x.example/{plant('file URL')}"}]},
        {"type": "reasoning", "summary": [{"type": "summary_text", "text": plant("earlier reasoning")}]},
        {"type": "function_call", "call_id": "t1", "name": "find", "arguments": arguments(plant, "earlier arguments")},
        {"type": "function_call_output", "call_id": "t1", "output": plant("tool result")},
    ]  # fmt: skip
    tool = {"type": "function", "name": "find", "description": plant("tool"), "parameters": schema(plant)}
    noted = {"type": "url_citation", "url": f"https://x.example/?u={plant('annotation')}", "title": plant("title")}
    output = [
        {"type": "reasoning", "content": [{"type": "reasoning_text", "text": plant("reasoning")}]},
        {
            "type": "message",
            "role": "assistant",
            "content": [{"type": "output_text", "text": plant("answer"), "annotations": [noted]}],
        },
        {"type": "function_call", "call_id": "t2", "name": "send", "arguments": arguments(plant, "args")},
    ]
    whole = {"object": "response", "status": "completed", "output": output, "x": plant("x in the answer")}
    request = {"input": items, "instructions": plant("system"), "tools": [tool], "safety_identifier": plant("safety identifier")}
    return request, [{"type": "response.completed", "response": {"id": "resp_1", **whole}}], whole


def messages(plant: Plant) -> tuple[Body, list[Body], Body]:
    use = {"type": "tool_use", "id": "t1", "name": "find", "input": {"q": plant("earlier arguments")}}
    document = {
        "type": "document",
        "title": plant("title"),
        "source": {"type": "text", "media_type": "text/plain", "data": plant("document")},
    }
    turns = [
        {"role": "user", "content": [{"type": "text", "text": plant("content")}, document]},
        {"role": "assistant", "content": [{"type": "thinking", "thinking": plant("earlier reasoning"), "signature": "s"}, use]},
        {
            "role": "user",
            "content": [{"type": "tool_result", "tool_use_id": "t1", "content": plant("tool result"), "is_error": True}],
        },
    ]
    tool = {"name": "find", "description": plant("tool"), "input_schema": schema(plant)}
    head: Body = {"type": "message", "role": "assistant", "content": []}
    thought, said, sent = plant("reasoning"), plant("answer"), {"to": plant("args")}
    stream = [
        {"type": "message_start", "message": {"id": "msg_1", **head}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "thinking", "thinking": ""}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "thinking_delta", "thinking": thought}},
        {"type": "content_block_start", "index": 1, "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_delta", "index": 1, "delta": {"type": "text_delta", "text": said}},
        {"type": "content_block_start", "index": 2, "content_block": {"type": "tool_use", "id": "t2", "name": "send", "input": {}}},
        {"type": "content_block_delta", "index": 2,
         "delta": {"type": "input_json_delta", "partial_json": msgspec.json.encode(sent).decode()}},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 1}},
    ]  # fmt: skip
    blocks = [{"type": "thinking", "thinking": thought}, {"type": "text", "text": said},
              {"type": "tool_use", "id": "t2", "name": "send", "input": sent}]  # fmt: skip
    whole = {**head, "content": blocks, "stop_reason": "end_turn", "x": plant("x in the answer")}
    return (
        {"system": [{"type": "text", "text": plant("system")}], "messages": turns, "tools": [tool], "max_tokens": 5},
        stream,
        whole,
    )


DIALECTS = {"chat": chat, "completions": completions, "responses": responses, "messages": messages}


def left(redactor: Redactor, plant: Canaries, dialect: str, request: Body, answer: Body | bytes, status: int = 200) -> list[str]:
    """The fields whose value can still be read in what would be stored."""
    asked, got = call_in(dialect, {**request, **beside(plant)}, answer, status=status)
    asked = msgspec.structs.replace(
        asked,
        headers={
            "user-agent": f"agent ({plant('user agent')})",
            "x-stainless-retry-count": plant("header"),
            "x-headrace-release": plant("release"),
            "x-headrace-retrieval": plant("retrieval"),
        },
        path=f"{asked.path}?for={plant('query of the path')}",
        session_id=plant("session id"),
        session_source="header",
        model=plant("model"),
    )
    got = msgspec.structs.replace(got, error=f"upstream said {plant('relay error')}")
    rules = Rules(KeyedDigests(bytes(32)), redactor, AdmissionPolicy(), tokenizer="t", may_train=lambda agent, session: True)
    governed = govern(RawExchange(asked, got), rules)
    stored = msgspec.json.encode(governed.event.event) + b"".join(part.data for part in governed.event.contents)
    stored += repr((governed.event, governed.call)).encode()
    return [field for field, value in plant.planted.items() if value.encode() in stored]


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("dialect", DIALECTS)
def test_no_field_of_a_call_keeps_its_value(redactor: Redactor, dialect: str, streamed: bool) -> None:
    plant = Canaries()
    request, events, whole = DIALECTS[dialect](plant)
    answer = sse(*events, named=dialect in ("messages", "responses")) if streamed else whole
    assert left(redactor, plant, dialect, request, answer) == []
    assert len(plant.planted) > 15


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("form", ["error", "flat error", "no JSON", "error in a stream"])
def test_no_error_keeps_the_value_that_it_quotes(redactor: Redactor, dialect: str, form: str) -> None:
    plant = Canaries()
    request, _, _ = DIALECTS[dialect](plant)
    error = {"message": f"bad input: {plant('error message')}", "type": "invalid_request_error", "param": plant("param")}
    answers: dict[str, Body | bytes] = {
        "error": {"error": error}, "flat error": error, "no JSON": f"<html>{plant('page')}</html>".encode(),
        "error in a stream": sse({"type": "error", "error": error}),
    }  # fmt: skip
    assert left(redactor, plant, dialect, request, answers[form], status=400) == []

"""The real redactor over each dialect: values in every place where one may hide, and in the exact tokens."""

import base64
import json
import zlib
from typing import Any

import msgspec
import numpy as np
import pytest

from atdp.arrays import INT32
from dataproxy.admit import AdmissionPolicy
from dataproxy.digests import KeyedDigests
from dataproxy.drain.exchange import RawExchange
from dataproxy.drain.govern import Governed, Rules, govern
from dataproxy.redact import Redactor
from tests.dataproxy.exchanges import call_in, record, sse
from tests.dataproxy.redact.encoder import Encoder

ASKED, RESULT, THOUGHT, TOLD, SEALED = ("ana@example.com", "bo@example.org", "cy@example.net", "dee@example.com", "eve@example.org")
VALUES = (ASKED, RESULT, THOUGHT, TOLD, SEALED)
BLOB = base64.b64encode(zlib.compress(f"sealed: {SEALED} and more, as an engine packs it".encode())).decode()
"""What no rule can read: an image, or reasoning that is only packed."""
ARGUMENTS = json.dumps({"to": TOLD, "say": "hi"})


def messages() -> tuple[dict[str, Any], bytes]:
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": BLOB}}
    use = {"type": "tool_use", "id": "t1", "name": "find", "input": {"q": ASKED}}
    turns = [
        {"role": "user", "content": [{"type": "text", "text": f"I am {ASKED}"}, image]},
        {"role": "assistant", "content": [{"type": "thinking", "thinking": THOUGHT, "signature": BLOB}, use]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1", "content": [{"type": "text", "text": RESULT}]}]},
    ]
    delta = {"type": "content_block_delta", "index": 1}
    pieces = [ARGUMENTS[i : i + 5] for i in range(0, len(ARGUMENTS), 5)]
    head = {"id": "msg_1", "type": "message", "role": "assistant", "content": []}
    stream = sse(
        {"type": "message_start", "message": head},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "thinking", "thinking": ""}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "thinking_delta", "thinking": f"{THOUGHT[:6]}"}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "thinking_delta", "thinking": f"{THOUGHT[6:]} then."}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "signature_delta", "signature": BLOB}},
        {"type": "content_block_start", "index": 1, "content_block": {"type": "tool_use", "id": "t2", "name": "send", "input": {}}},
        *({**delta, "delta": {"type": "input_json_delta", "partial_json": piece}} for piece in pieces),
        {"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 1}},
    )
    return {"max_tokens": 5, "messages": turns, "metadata": {"user_id": ASKED}}, stream


def responses() -> tuple[dict[str, Any], bytes]:
    image = {"type": "input_image", "image_url": f"data:image/png;base64,{BLOB}"}
    sealed = {"type": "reasoning", "summary": [{"type": "summary_text", "text": THOUGHT}], "encrypted_content": BLOB}
    items = [
        {"role": "user", "content": [{"type": "input_text", "text": f"I am {ASKED}"}, image]},
        sealed,
        {"type": "function_call", "call_id": "t1", "name": "find", "arguments": json.dumps({"q": ASKED})},
        {"type": "function_call_output", "call_id": "t1", "output": RESULT},
    ]
    thought = {"type": "reasoning", "content": [{"type": "reasoning_text", "text": f"{THOUGHT} then."}], "encrypted_content": BLOB}
    call = {"type": "function_call", "call_id": "t2", "name": "send", "arguments": ARGUMENTS}
    pieces = [ARGUMENTS[i : i + 5] for i in range(0, len(ARGUMENTS), 5)]
    delta = {"type": "response.function_call_arguments.delta", "output_index": 1}
    whole = {"id": "resp_1", "object": "response", "status": "completed", "output": [thought, call], "user": ASKED}
    stream = sse(*({**delta, "delta": piece} for piece in pieces), {"type": "response.completed", "response": whole})
    return {"input": items, "user": ASKED, "safety_identifier": ASKED}, stream


def chat() -> tuple[dict[str, Any], bytes]:
    image = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{BLOB}"}}
    turns = [
        {"role": "user", "content": [{"type": "text", "text": f"I am {ASKED}"}, image]},
        {"role": "assistant", "content": None, "reasoning_content": THOUGHT, "tool_calls": [
            {"id": "t1", "type": "function", "function": {"name": "find", "arguments": {"q": ASKED}}}]},
        {"role": "tool", "tool_call_id": "t1", "content": RESULT},
    ]  # fmt: skip
    chunks: list[dict[str, Any]] = [{"reasoning_content": THOUGHT[:6]}, {"reasoning_content": f"{THOUGHT[6:]} then."}]
    chunks += [{"tool_calls": [{"index": 0, "id": "t2", "type": "function", "function": {"name": "send", "arguments": ""}}]}]
    pieces = [ARGUMENTS[i : i + 5] for i in range(0, len(ARGUMENTS), 5)]
    chunks += [{"tool_calls": [{"index": 0, "function": {"arguments": piece}}]} for piece in pieces]
    spelled = {"content": [{"token": "dee@"}, {"token": "example.com"}]}
    events = [{"choices": [{"index": 0, "delta": delta, "logprobs": spelled, "finish_reason": None}]} for delta in chunks]
    return {"messages": turns, "user": ASKED, "input_ids": [1, 2, 3]}, sse(*events, named=False) + b"data: [DONE]\n\n"


def completions() -> tuple[dict[str, Any], bytes]:
    chunks = [
        {"choices": [{"index": 0, "text": text, "finish_reason": None}]} for text in (f"{THOUGHT} then. {TOLD[:5]}", TOLD[5:])
    ]
    prompt = f"I am {ASKED}, {RESULT} {THOUGHT}"
    return {"prompt": prompt, "user": ASKED}, sse(*chunks, named=False)


def governed(redactor: Redactor, encoder: Encoder, dialect: str, request: dict[str, Any], answer: bytes) -> Governed:
    prompt = encoder.chat(("user", f"I am {ASKED}"), ("assistant", f"{THOUGHT} find {ASKED}"), ("tool", RESULT))
    output = encoder.ids(f"<think>{THOUGHT} then.</think> {ARGUMENTS}<|im_end|>")
    exact = record("r", prompt.tolist(), [output.tolist()])
    asked, got = call_in(dialect, request, answer, engine_record=exact)
    rules = Rules(KeyedDigests(bytes(32)), redactor, AdmissionPolicy(), tokenizer="t", may_train=lambda agent, session: True)
    return govern(RawExchange(asked, got), rules)


@pytest.mark.parametrize("case", [chat, completions, responses, messages])
def test_no_value_is_left_in_the_event_or_in_its_tokens(redactor: Redactor, encoder: Encoder, case: Any) -> None:
    request, answer = case()
    found = governed(redactor, encoder, case.__name__, request, answer)
    event, (tokens,) = found.event, found.event.tokens
    stored = msgspec.json.encode([event.event, [content.data.decode() for content in event.contents]]).decode()
    texts = [encoder.text(np.frombuffer(ids, INT32)) for ids in (tokens.record.prompt_ids, tokens.record.output_ids)]
    for value in VALUES:
        assert value not in stored and value not in "".join(texts)
    assert BLOB not in stored and "<EMAIL_" in stored
    assert "then." in stored and "then." in texts[1]
    assert tokens.num_altered > 0 and b"\1" in tokens.record.output_altered


@pytest.mark.parametrize("case", [chat, responses, messages])
def test_spans_stand_where_the_normal_form_has_the_text(redactor: Redactor, encoder: Encoder, case: Any) -> None:
    found = governed(redactor, encoder, case.__name__, *case())
    answer = found.event.contents[-1]
    (call,) = msgspec.json.decode(answer.data)["tool_calls"]
    assert msgspec.json.decode(call["function"]["arguments"])["say"] == "hi"
    (span,) = [span for span in answer.spans if span.path == "/tool_calls/0/function/arguments"]
    assert call["function"]["arguments"][span.start : span.end] == span.surrogate

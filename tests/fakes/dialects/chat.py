"""POST /v1/chat/completions of the fake engine."""

import json
from typing import Any

from tests.fakes.dialects.call import Refused, Running, end_stream, finish_reason, send_data, send_event, send_json, start_stream
from tests.fakes.dialects.parts import Part, joined


class Chat:
    """OpenAI chat completions."""

    prefix = "chatcmpl-"

    def as_chat(self, body: dict[str, Any]) -> dict[str, Any]:
        if not isinstance(body.get("messages"), list) or not body["messages"]:
            raise Refused("messages: a list of messages is required")
        return body

    def error(self, status: int, message: str) -> dict[str, Any]:
        return {"object": "error", "message": message, "type": "BadRequestError", "param": None, "code": status}

    async def stream(self, call: Running, send: Any) -> None:
        head = {"id": call.rid, "object": "chat.completion.chunk", "created": 1, "model": call.body["model"]}
        await start_stream(send)

        async def event(index: int, delta: dict[str, Any], reason: str | None = None) -> None:
            await send_event(send, {**head, "choices": [choice(index, delta, reason)]})

        reasons = []
        for index in range(call.chat.get("n") or 1):
            await event(index, {"role": "assistant", "content": ""})
            said: list[Part] = []
            async for parts in call.answer(index):
                for part in parts:
                    await event(index, delta(part, sum(one.kind == "tool" for one in said), call.rid))
                    said.append(part)
            reasons.append(finish_reason(call.samples[-1], said))
        for sample, reason in zip(call.samples, reasons, strict=True):  # all at the end, as SGLang does
            await event(sample.index, {}, reason)
        if (call.body.get("stream_options") or {}).get("include_usage"):
            await send_event(send, {**head, "choices": [], "usage": usage(call)})
        await send_data(send, b"[DONE]")
        await end_stream(send)

    async def whole(self, call: Running, send: Any) -> None:
        choices = []
        for index in range(call.chat.get("n") or 1):
            parts = await call.whole(index)
            text, reasoning, calls = joined(parts)
            message: dict[str, Any] = {"role": "assistant", "content": text, "reasoning_content": reasoning or None}
            if calls:
                message["tool_calls"] = [tool_call(part, at, call.rid) for at, part in enumerate(calls)]
            ending = {"finish_reason": finish_reason(call.samples[-1], parts), "matched_stop": call.samples[-1].matched}
            choices.append({"index": index, "message": message, "logprobs": None, **ending})
        answer = {"id": call.rid, "object": "chat.completion", "created": 1, "model": call.body["model"], "choices": choices}
        await send_json(send, 200, {**answer, "usage": usage(call), "metadata": {"weight_version": call.model.version}})


def choice(index: int, delta: dict[str, Any], finish_reason: str | None) -> dict[str, Any]:
    """One choice of a streamed chunk."""
    delta = {"reasoning_content": None, **delta}
    return {"index": index, "delta": delta, "logprobs": None, "finish_reason": finish_reason, "matched_stop": None}


def delta(part: Part, num_calls: int, rid: str) -> dict[str, Any]:
    """What a chunk says of one part."""
    if part.kind == "tool":
        return {"role": None, "content": None, "tool_calls": [tool_call(part, num_calls, rid)]}
    return {"content": part.text} if part.kind == "text" else {"reasoning_content": part.text}


def tool_call(part: Part, index: int, rid: str) -> dict[str, Any]:
    json.loads(part.text)
    function = {"name": part.name, "arguments": part.text}
    return {"id": f"call_{index}_{rid[-12:]}", "index": index, "type": "function", "function": function}


def usage(call: Running) -> dict[str, Any]:
    """Token counts."""
    counts = {"prompt_tokens": call.num_prompt, "total_tokens": call.num_prompt + call.num_output}
    return {**counts, "completion_tokens": call.num_output, "prompt_tokens_details": None, "reasoning_tokens": 0}

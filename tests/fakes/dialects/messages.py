"""POST /v1/messages and /v1/messages/count_tokens of the fake engine."""

import json
from typing import Any

from tests.fakes.dialects.call import Refused, Running, end_stream, send_event, send_json, start_stream
from tests.fakes.dialects.parts import Part, flat
from tests.fakes.generation import Sample
from workers.inference.dialects.messages import ABORTED

_BLOCKS = {"text", "image", "tool_use", "tool_result", "thinking", "search_result"}
_ERRORS = {400: "invalid_request_error", 404: "not_found_error", 503: "overloaded_error"}


class Messages:
    """Anthropic's messages."""

    prefix = "msg_"

    def as_chat(self, body: dict[str, Any]) -> dict[str, Any]:
        if not isinstance(body.get("messages"), list) or not isinstance(body.get("max_tokens"), int):
            raise Refused("messages: Field required; max_tokens: Field required")
        system = flat(body.get("system"))
        messages = [{"role": "system", "content": system}] if system else []
        for at, message in enumerate(body["messages"]):
            for block in message["content"] if isinstance(message["content"], list) else []:
                if block["type"] not in _BLOCKS:
                    raise Refused(f"messages.{at}.content: Input tag {block['type']!r} does not match any of the expected tags")
            messages.append({"role": message["role"], "content": flat(message["content"])})
        return {**body, "messages": messages, "stop": body.get("stop_sequences")}

    def error(self, status: int, message: str) -> dict[str, Any]:
        return {"type": "error", "error": {"type": _ERRORS.get(status, "api_error"), "message": message}}

    async def stream(self, call: Running, send: Any) -> None:
        await start_stream(send)

        async def event(kind: str, **fields: Any) -> None:
            await send_event(send, {"type": kind, **fields}, kind)

        usage = {"input_tokens": call.num_prompt, "output_tokens": 0}
        await event("message_start", message={**head(call), "content": [], "usage": usage})
        index, is_open, said = -1, "", []
        async for parts in call.answer():
            for part in parts:
                if part.kind != is_open or part.kind == "tool":
                    if is_open:
                        await event("content_block_stop", index=index)
                    index, is_open = index + 1, part.kind
                    await event("content_block_start", index=index, content_block=block(part, call.rid, index, is_start=True))
                await event("content_block_delta", index=index, delta=delta(part))
                said.append(part)
        if is_open:
            await event("content_block_stop", index=index)
        if call.samples[-1].finish_reason == "abort":
            await event("error", error={"type": "api_error", "message": ABORTED})
        else:
            await event("message_delta", delta=ending(call.samples[-1], said), usage={"output_tokens": call.num_output})
        await event("message_stop")
        await end_stream(send)

    async def whole(self, call: Running, send: Any) -> None:
        parts: list[Part] = []
        for part in await call.whole():
            if parts and part.kind == parts[-1].kind != "tool":
                parts[-1] = Part(part.kind, parts[-1].text + part.text)
            else:
                parts.append(part)
        if call.samples[-1].finish_reason == "abort":
            await send_json(send, 500, self.error(500, ABORTED))
            return
        content = [block(part, call.rid, at) for at, part in enumerate(parts)] or [{"type": "text", "text": ""}]
        usage = {"input_tokens": call.num_prompt, "output_tokens": call.num_output}
        await send_json(send, 200, {**head(call), "content": content, **ending(call.samples[-1], parts), "usage": usage})


def head(call: Running) -> dict[str, Any]:
    return {"id": call.rid, "type": "message", "role": "assistant", "model": call.body["model"]}


def block(part: Part, rid: str, index: int, is_start: bool = False) -> dict[str, Any]:
    """A content block; as it starts it is empty."""
    text = "" if is_start else part.text
    if part.kind == "tool":
        call_input = {} if is_start else json.loads(part.text)
        return {"type": "tool_use", "id": f"call_{index}_{rid[-12:]}", "name": part.name, "input": call_input}
    return {"type": "text", "text": text} if part.kind == "text" else {"type": "thinking", "thinking": text}


def delta(part: Part) -> dict[str, Any]:
    if part.kind == "tool":
        return {"type": "input_json_delta", "partial_json": part.text}
    if part.kind == "text":
        return {"type": "text_delta", "text": part.text}
    return {"type": "thinking_delta", "thinking": part.text}


def ending(sample: Sample, parts: list[Part]) -> dict[str, Any]:
    """Why it stopped, in Anthropic's words."""
    if sample.finish_reason == "length":
        return {"stop_reason": "max_tokens"}
    if sample.matched is not None:
        return {"stop_reason": "stop_sequence", "stop_sequence": sample.matched}
    return {"stop_reason": "tool_use" if any(part.kind == "tool" for part in parts) else "end_turn"}

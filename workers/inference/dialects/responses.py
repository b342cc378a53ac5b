"""`/v1/responses` where SGLang falls short of it.

Owns: the response's id (ours), `max_output_tokens` (SGLang takes two off), a 400 in place of a stream that fails at once, text that
streams although tools are on (SGLang keeps it back to the end), one assistant turn for a message and the calls that belong to it,
arguments that are not JSON, content and fields that would be dropped without a word, a bound for what is stored and DELETE of it.
A background response cannot be recorded, its answer leaves before the tokens exist: where a record is wanted it is a 400.
Place in the path: step 1.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import aclosing
from itertools import pairwise
from typing import Any, Final

import msgspec

from workers.inference.dialects.store import History
from workers.inference.dialects.streams import after_first
from workers.inference.middleware import repairing

_PARTS: Final = {"input_text", "output_text", "text", "input_image", "image_url", "input_audio", "audio_url", "video_url"}
_ELSEWHERE: Final = ("conversation", "prompt")
_OPENING: Final = ("event: response.created\n", "event: response.in_progress\n")
_PHASE: Final = '"phase":"final_answer"'


class Responses:
    """Hooks around one `OpenAIServingResponses`. `_keeps_phase`: the model's template reads the phase of a message."""

    def __init__(self) -> None:
        self._keeps_phase = False

    def around_init(self, original: Callable[..., None], serving: Any, *args: Any, **options: Any) -> None:
        original(serving, *args, **options)
        serving.msg_store = History(lambda response_id: serving.response_store.pop(response_id, None))
        source = getattr(serving.tokenizer_manager.tokenizer, "chat_template", None) or ""
        self._keeps_phase = serving.use_harmony or "phase" in str(source)

    async def around_create(self, original: Callable[..., Any], serving: Any, request: Any, raw_request: Any = None) -> Any:
        """Name the response, and see that the engine takes the request before a stream begins."""
        order = repairing()
        if order is None:
            return await original(serving, request, raw_request)
        request.request_id = order.rid
        if raw_request is not None and (field := _unknown_state(await raw_request.body())) is not None:
            return serving.create_error_response(
                f"{field} is not supported; use previous_response_id, or send the input", param=field
            )
        if request.background and not request.stream:
            if order.wants_record:
                return serving.create_error_response("background=true is not supported: a response is recorded as it is answered. "
                                                     "Use stream=true, or leave background out.", param="background")  # fmt: skip
            order.is_detached = True
        result = await original(serving, request, raw_request)
        if not hasattr(result, "__aiter__"):
            return result
        events = await after_first(result, lambda event: not event.startswith(_OPENING))
        return serving.create_error_response(order.refusal) if order.refusal is not None else events

    def around_stream(self, original: Callable[..., Any], serving: Any, request: Any, *args: Any, **options: Any) -> Any:
        """Let text out as it comes. Whether it is commentary or the answer is known at the end only, and said there."""
        if repairing() is None:
            return original(serving, request, *args, **options)
        events = serving._responses_stream_generator_non_harmony(request, *args, **options)
        return _phases_at_the_end(events) if request.tools else _not_empty(events)

    def around_merge(self, original: Callable[..., Any], messages: list[Any]) -> list[Any]:
        """A message and the calls after it are one turn: their phases, which differ, keep SGLang from joining them."""
        if repairing() is not None and not self._keeps_phase:
            messages = [
                {key: value for key, value in message.items() if key != "phase"} if isinstance(message, dict) else message
                for message in messages
            ]
        return list(original(messages))

    def hooks(self) -> list[tuple[str, Callable[..., Any]]]:
        """Targets and hooks."""
        serving = "sglang.srt.entrypoints.openai.serving_responses.OpenAIServingResponses"
        return [
            (f"{serving}.__init__", self.around_init),
            (f"{serving}.create_responses", self.around_create),
            (f"{serving}.responses_stream_generator_non_harmony", self.around_stream),
            (f"{serving}._merge_consecutive_assistant_messages", self.around_merge),
            (f"{serving}._normalize_response_message_for_chat", around_item),
            (f"{serving}._response_input_history", around_history),
            ("sglang.srt.entrypoints.openai.protocol.ResponsesRequest.to_sampling_params", around_sampling),
        ]


def _unknown_state(body: bytes) -> str | None:
    """A field of the body that refers to state which only OpenAI has: SGLang would answer as if it were not there."""
    if not any(b'"%b"' % field.encode() in body for field in _ELSEWHERE):
        return None
    document = msgspec.json.decode(body)
    return next((field for field in _ELSEWHERE if document.get(field) is not None), None)


def around_history(original: Callable[..., list[Any]], serving: Any, request: Any) -> list[Any]:
    """Look the conversation up once: it may be gone from the store by the time that the answer is stored."""
    order = repairing()
    if order is None:
        return original(serving, request)
    if order.history is None:
        order.history = original(serving, request)
    return list(order.history)


async def delete(request: Any) -> Any:
    """DELETE /v1/responses/{id}, which SGLang has not: the response and its conversation leave the engine's memory."""
    from fastapi.responses import JSONResponse

    serving, response_id = request.app.state.openai_serving_responses, request.path_params["response_id"]
    async with serving.response_store_lock:
        if serving.response_store.pop(response_id, None) is None:
            return serving._make_not_found_error(response_id)
        serving.msg_store.pop(response_id, None)
    return JSONResponse({"id": response_id, "object": "response", "deleted": True})


def around_sampling(original: Callable[..., dict[str, Any]], request: Any, *args: Any, **options: Any) -> dict[str, Any]:
    """As many tokens as were asked for."""
    params = original(request, *args, **options)
    if repairing() is not None and request.max_output_tokens is not None:
        params["max_new_tokens"] = request.max_output_tokens
    return params


def around_item(original: Callable[..., Any], cls: Any, message: Any, **options: Any) -> Any:
    """One input item as a chat message, without loss. Raises ValueError (a 400) for content that the engine cannot read."""
    if repairing() is None or not isinstance(message, Mapping):
        return original(cls, message, **options)
    kind, content = message.get("type"), message.get("content")
    if kind in (None, "message") and isinstance(content, list):
        message = {**message, "content": [_readable(part) for part in content]}
    chat = original(cls, message, **options)
    if kind == "function_call" and isinstance(message.get("arguments"), str):
        chat["tool_calls"][0]["function"]["arguments"] = message["arguments"]
    output = message.get("output")
    if kind in ("function_call_output", "custom_tool_call_output") and isinstance(output, list):
        parts = [_readable(part) for part in output]
        if any(part.get("type") not in ("input_text", "output_text", "text") for part in parts):
            chat["content"] = [cls._normalize_response_content_part_for_chat(part) for part in parts]
    return chat


def _readable(part: Any) -> Any:
    kind = part.get("type") if isinstance(part, Mapping) else None
    if kind == "refusal":
        return {"type": "output_text", "text": part["refusal"]}
    if kind not in _PARTS:
        from sglang.srt.entrypoints.openai.serving_responses import _MediaInputValidationError

        known = ", ".join(sorted(_PARTS))
        raise _MediaInputValidationError(f"input: content parts of type {kind!r} are not supported; supported are {known}")
    return part


async def _not_empty(events: AsyncIterator[str]) -> AsyncIterator[str]:
    async with aclosing(events) as source:  # type: ignore[type-var]  # an async generator of SGLang's
        async for event in source:
            if event:
                yield event


async def _phases_at_the_end(events: AsyncIterator[str]) -> AsyncIterator[str]:
    async for event in _not_empty(events):
        if event.startswith("event: response.output_item."):
            yield event.replace(_PHASE, '"phase":null') if '"type":"message"' in event else event
        elif event.startswith(("event: response.completed\n", "event: response.incomplete\n")):
            yield _with_phases(event)
        else:
            yield event


def _with_phases(event: str) -> str:
    """The last event, with messages that a call follows marked as commentary."""
    head, data = event.split("data: ", 1)
    document = msgspec.json.decode(data)
    output = document["response"]["output"]
    for item, following in pairwise(output):
        if item["type"] == "message" and following["type"].endswith("_call"):
            item["phase"] = "commentary"
    return f"{head}data: {msgspec.json.encode(document).decode()}\n\n"

"""`/v1/messages` where SGLang falls short of it.

Owns: the message's id (ours), `stop_reason: stop_sequence` with the sequence, an error in place of an aborted answer that would
pass for a finished one, a 400 in place of a stream that fails at once, Anthropic's names for errors, tool results marked as errors
(SGLang forgets the mark), and the continuation of a last assistant message (SGLang turns it into the user's). Place in
the path: step 1.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import Any, Final

import msgspec

from workers.inference.dialects.streams import after_first
from workers.inference.middleware import Order, repairing

TOOL_ERROR: Final = "Error: "
"""Stands before the content of a tool result with `is_error`: no chat template has a place for the mark."""

ABORTED: Final = "the generation was aborted by the engine"

_ERROR_TYPES: Final = {
    400: "invalid_request_error", 401: "authentication_error", 403: "permission_error", 404: "not_found_error",
    413: "request_too_large", 429: "rate_limit_error", 500: "api_error", 503: "overloaded_error", 504: "timeout_error",
    529: "overloaded_error",
}  # fmt: skip
_START: Final = "event: message_start\n"
_END: Final = "event: message_delta\n"


def around_convert(original: Callable[..., Any], serving: Any, request: Any) -> Any:
    """Anthropic's request as a chat request, without loss."""
    if repairing() is None:
        return original(serving, request)
    for message in request.messages:
        for block in message.content if isinstance(message.content, list) else ():
            if block.type == "tool_result" and block.is_error:
                block.content = _marked(block.content)
    chat = original(serving, request)
    last = chat.messages[-1] if chat.messages else None
    if last is not None and last.role == "assistant" and not last.tool_calls and isinstance(last.content, str):
        chat.continue_final_message = True
    return chat


def around_answer(original: Callable[..., Any], serving: Any, response: Any) -> Any:
    """A whole answer, with its id and why it stopped."""
    message, order = original(serving, response), repairing()
    if order is not None:
        message.id = order.rid
        matched = _stop_sequence(order)
        if matched is not None:
            message.stop_reason, message.stop_sequence = "stop_sequence", matched
    return message


async def around_whole(original: Callable[..., Any], serving: Any, *args: Any) -> Any:
    """An aborted answer is an error: the dialect has no stop reason for it."""
    answer, order = await original(serving, *args), repairing()
    if order is not None and answer.status_code == 200 and _is_aborted(order):
        return serving._error_response(status_code=500, error_type="api_error", message=ABORTED)
    return answer


async def around_streaming(original: Callable[..., Any], serving: Any, *args: Any) -> Any:
    """Answer 400 where the engine refuses the request before its first token."""
    answer, order = await original(serving, *args), repairing()
    if order is None or not hasattr(answer, "body_iterator"):
        return answer
    events = await after_first(answer.body_iterator, lambda event: True)
    if order.refusal is not None:
        await events.aclose()
        return serving._error_response(status_code=400, error_type="invalid_request_error", message=order.refusal)
    answer.body_iterator = events
    return answer


def around_events(original: Callable[..., Any], serving: Any, *args: Any) -> Any:
    """The events of a stream, with the message's id and why it stopped."""
    order, events = repairing(), original(serving, *args)
    return events if order is None else _repaired(events, order)


def around_error(original: Callable[..., Any], serving: Any, status_code: int, error_type: str, *args: Any, **more: Any) -> Any:
    """Name the error as Anthropic does: SGLang passes on its own names."""
    if repairing() is not None and error_type not in _ERROR_TYPES.values():
        error_type = _ERROR_TYPES.get(status_code, "invalid_request_error" if status_code < 500 else "api_error")
    return original(serving, status_code, error_type, *args, **more)


def hooks() -> list[tuple[str, Callable[..., Any]]]:
    """Targets and hooks."""
    serving = "sglang.srt.entrypoints.anthropic.serving.AnthropicServing"
    return [
        (f"{serving}._convert_to_chat_completion_request", around_convert),
        (f"{serving}._convert_response", around_answer),
        (f"{serving}._handle_non_streaming", around_whole),
        (f"{serving}._handle_streaming", around_streaming),
        (f"{serving}._generate_anthropic_stream", around_events),
        (f"{serving}._error_response", around_error),
    ]


async def _repaired(events: AsyncGenerator[str, None], order: Order) -> AsyncGenerator[str, None]:
    async with aclosing(events) as source:
        async for event in source:
            if event.startswith(_START):
                yield _edited(event, lambda start: start["message"].update(id=order.rid))
            elif event.startswith(_END) and _is_aborted(order):
                problem = {"type": "error", "error": {"type": "api_error", "message": ABORTED}}
                yield f"event: error\ndata: {msgspec.json.encode(problem).decode()}\n\n"
            elif event.startswith(_END) and (matched := _stop_sequence(order)) is not None:
                ending = {"stop_reason": "stop_sequence", "stop_sequence": matched}
                yield _edited(event, lambda end, ending=ending: end["delta"].update(ending))  # type: ignore[misc]
            else:
                yield event


def _edited(event: str, change: Callable[[Any], None]) -> str:
    head, data = event.split("data: ", 1)
    document = msgspec.json.decode(data)
    change(document)
    return f"{head}data: {msgspec.json.encode(document).decode()}\n\n"


def _stop_sequence(order: Order) -> str | None:
    """The stop string that ended the answer; a stop token is a number."""
    matched = order.record.finish_reason.get("matched") if order.record is not None else None
    return matched if isinstance(matched, str) else None


def _is_aborted(order: Order) -> bool:
    return order.record is not None and order.record.finish_reason.get("type") == "abort"


def _marked(content: Any) -> Any:
    if isinstance(content, list):
        from sglang.srt.entrypoints.anthropic.protocol import TextBlock

        return [TextBlock(text=TOOL_ERROR.strip()), *content]
    return TOOL_ERROR + (content or "")

"""OpenAI's Responses: a list of items in, a list of items out; consecutive items of the assistant are one message.

With ``previous_response_id`` the earlier items lie in the engine: the request names them only.
"""

from collections.abc import Iterable
from typing import Any, Final

from dataproxy.drain.dialects.dialect import NormalRequest, objects, reasons, text_of
from dataproxy.drain.dialects.items import Turn, kind_of, messages_of
from dataproxy.drain.dialects.stream_items import StreamItems

_MOVED = frozenset(("input", "instructions", "tools"))
_ECHOED = frozenset(
    (
        *("instructions", "tools", "tool_choice", "parallel_tool_calls", "temperature", "top_p", "max_output_tokens"),
        *("max_tool_calls", "previous_response_id", "reasoning", "store", "text", "truncation", "user", "metadata"),
        *("background", "service_tier", "presence_penalty", "frequency_penalty"),
        *("top_logprobs", "prompt", "prompt_cache_key", "safety_identifier", "conversation", "output_text", "created_at"),
    )
)
"""Fields of a response that say again what the request said."""
_TOLD = frozenset(("output", "status", "incomplete_details", "usage", "error"))
_INCOMPLETE: Final = {"max_output_tokens": "length", "max_tokens": "length", "content_filter": "content_filter"}


def request(body: dict[str, Any]) -> NormalRequest:
    """Instructions as the first message, then the items as messages."""
    instructions, given = body.get("instructions"), body.get("input")
    turns = [{"role": "system", "content": instructions}] if isinstance(instructions, str) and instructions else []
    turns += messages_of(objects(instructions))
    turns += [{"role": "user", "content": given}] if isinstance(given, str) else messages_of(objects(given))
    rest = {name: value for name, value in body.items() if name not in _MOVED}
    tools = {"tools": [_tool(tool) for tool in body["tools"]]} if isinstance(body.get("tools"), list) and body["tools"] else {}
    user = text_of(body.get("user")) or text_of(body.get("safety_identifier"))
    return NormalRequest({**rest, "messages": turns, **tools}, user, text_of(body.get("previous_response_id")))


def answer(value: dict[str, Any]) -> dict[str, Any]:
    """All output items as the message of the only choice."""
    if not isinstance(value.get("output"), list):
        return value
    turn = Turn()
    for item in objects(value["output"]):
        turn.add(item, kind_of(item))
    message = turn.message()
    normal, given = _finish(value, bool(message.get("tool_calls")))
    rest = {name: item for name, item in value.items() if name not in _ECHOED and name not in _TOLD}
    rest |= {"error": value["error"]} if value.get("error") else {}
    ran = value["output"] or value.get("status") in ("completed", "incomplete")
    choices = [{"index": 0, "message": message, **reasons(normal, given)}] if ran else []
    return rest | {"status": value.get("status"), "choices": choices} | _usage(value.get("usage"))


def joined(events: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """The response that the last event holds; of a stream that was cut off, the items as far as they came."""
    whole: dict[str, Any] = {}
    items = StreamItems()
    for event in events:
        response = event.get("response")
        if isinstance(response, dict):
            whole = {**whole, **response}
        elif event.get("type") == "error" or "error" in event:
            whole["error"] = event.get("error") or {k: v for k, v in event.items() if k not in ("type", "sequence_number")}
        else:
            items.add(event)
    if not whole.get("output") and items:
        whole["output"] = items.found()
    return whole


def _finish(value: dict[str, Any], calls: bool) -> tuple[str | None, str | None]:
    status, details = value.get("status"), value.get("incomplete_details")
    if status == "completed":
        return ("tool_calls" if calls else "stop"), "completed"
    if status == "incomplete":
        why = details.get("reason") if isinstance(details, dict) else None
        return _INCOMPLETE.get(text_of(why), why), f"incomplete: {why}"
    return ("abort", status) if status in ("failed", "cancelled") else (None, text_of(status) or None)


def _tool(tool: Any) -> Any:
    if not isinstance(tool, dict) or tool.get("type") != "function" or "function" in tool:
        return tool
    return {"type": "function", "function": {name: value for name, value in tool.items() if name != "type"}}


def _usage(usage: Any) -> dict[str, Any]:
    """The counts under the names of chat completions beside the dialect's own."""
    if not isinstance(usage, dict):
        return {}
    counts = {"prompt_tokens": usage.get("input_tokens"), "completion_tokens": usage.get("output_tokens")}
    return {"usage": usage | counts}

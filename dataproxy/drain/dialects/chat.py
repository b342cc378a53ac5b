"""OpenAI's chat completions, the normal form itself: only streams have to be put together."""

from collections.abc import Iterable
from typing import Any

from dataproxy.drain.dialects.dialect import NormalRequest, joined_choices, objects, text_of

_JOINED = frozenset(("content", "reasoning_content", "reasoning", "refusal"))
_PER_CHUNK = frozenset(("choices", "object", "usage"))


def request(body: dict[str, Any]) -> NormalRequest:
    """As it is."""
    return NormalRequest(body, text_of(body.get("user")), prefilled=body.get("continue_final_message") is True)


def answer(value: dict[str, Any]) -> dict[str, Any]:
    """As it is, but for its old word for tool calls and the places of calls in a stream, which their order says."""
    if not isinstance(value.get("choices"), list):
        return value
    return {**value, "choices": [_choice(choice) for choice in value["choices"]]}


def _choice(choice: Any) -> Any:
    message = choice.get("message") if isinstance(choice, dict) else None
    if isinstance(message, dict) and message.get("tool_calls"):
        calls = [{name: item for name, item in call.items() if name != "index"} for call in objects(message["tool_calls"])]
        choice = {**choice, "message": {**message, "tool_calls": calls}}
    if not isinstance(choice, dict) or choice.get("finish_reason") != "function_call":
        return choice
    return {**choice, "finish_reason": "tool_calls", "given_finish_reason": "function_call"}


def joined(events: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """The deltas of each choice put together; what the engine adds to chunks or choices beyond the dialect is kept."""
    return joined_choices(events, _PER_CHUNK, _add_part)


def _add_part(choices: dict[int, dict[str, Any]], part: dict[str, Any]) -> None:
    index = part.get("index", 0)
    if index not in choices:
        choices[index] = {"index": index, "message": {"role": "assistant", "content": None}, "finish_reason": None}
    choice = choices[index]
    for key, value in part.items():
        if key == "delta" and isinstance(value, dict):
            _add_delta(choice["message"], value)
        elif value is not None and key not in ("index", "delta"):
            choice[key] = value


def _add_delta(message: dict[str, Any], delta: dict[str, Any]) -> None:
    for key, value in delta.items():
        if value is None:
            continue
        if key in _JOINED and isinstance(value, str):
            message[key] = (message.get(key) or "") + value
        elif key == "tool_calls" and isinstance(value, list):
            _add_tool_calls(message.setdefault("tool_calls", []), objects(value))
        else:
            message[key] = value


def _add_tool_calls(calls: list[dict[str, Any]], deltas: list[dict[str, Any]]) -> None:
    """``index`` says which call a delta belongs to; names and ids come once, arguments in pieces."""
    for delta in deltas:
        index = delta.get("index", len(calls))
        call = next((c for c in calls if c.get("index") == index), None)
        if call is None:
            call = {"index": index, "id": None, "type": "function", "function": {"name": "", "arguments": ""}}
            calls.append(call)
        call.update({k: v for k, v in delta.items() if k != "function" and v is not None})
        function = delta.get("function") or {}
        if isinstance(function.get("name"), str) and not call["function"]["name"]:
            call["function"]["name"] = function["name"]
        if isinstance(function.get("arguments"), str):
            call["function"]["arguments"] += function["arguments"]

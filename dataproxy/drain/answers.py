"""The answer of a chat call as one JSON value, whether it came whole or as a stream of deltas.

A stream's deltas are put together into the messages that a whole answer would have had. Per-token ``logprobs`` are left out: they
spell the text again, token by token, and the engine's record holds the exact ones.
"""

from typing import Any

import msgspec

from dataproxy.drain.sse import event_data

_JOINED = frozenset(("content", "reasoning_content", "reasoning", "refusal"))
_PER_CHUNK = frozenset(("choices", "object", "usage"))
_PER_PART = frozenset(("index", "delta", "logprobs"))


def read_answer(body: bytes, stream: bool) -> dict[str, Any]:
    """``{"choices": [{"index", "message", "finish_reason"}], "usage", …}``, or ``{"error": …}``, or ``{"text": …}`` for neither.

    What the engine adds to chunks or choices beyond the dialect is kept.
    """
    if stream:
        return _from_stream(body)
    try:
        value = msgspec.json.decode(body)
    except (msgspec.DecodeError, RecursionError):
        return {"text": body.decode(errors="replace")} if body else {}
    if not isinstance(value, dict):
        return {"text": body.decode(errors="replace")}
    if isinstance(value.get("choices"), list):
        value["choices"] = [_without_logprobs(choice) for choice in value["choices"]]
    return value


def _without_logprobs(choice: Any) -> Any:
    return {key: value for key, value in choice.items() if key != "logprobs"} if isinstance(choice, dict) else choice


def _from_stream(body: bytes) -> dict[str, Any]:
    answer: dict[str, Any] = {}
    choices: dict[int, dict[str, Any]] = {}
    for data in event_data(body):
        if data.strip() == b"[DONE]":
            continue
        try:
            chunk = msgspec.json.decode(data)
        except (msgspec.DecodeError, RecursionError):
            answer.setdefault("unparsed", []).append(data.decode(errors="replace"))
            continue
        if isinstance(chunk, dict):
            _add_chunk(answer, choices, chunk)
    if choices:
        answer["choices"] = [choices[index] for index in sorted(choices)]
    return answer


def _add_chunk(answer: dict[str, Any], choices: dict[int, dict[str, Any]], chunk: dict[str, Any]) -> None:
    for key, value in chunk.items():
        if key not in _PER_CHUNK:
            answer[key] = value
    if chunk.get("usage") is not None:
        answer["usage"] = chunk["usage"]
    for part in chunk.get("choices") or []:
        if not isinstance(part, dict):
            continue
        index = part.get("index", 0)
        choice = choices.get(index)
        if choice is None:
            choice = {"index": index, "message": {"role": "assistant", "content": None}, "finish_reason": None}
            choices[index] = choice
        for key, value in part.items():
            if key == "delta" and isinstance(value, dict):
                _add_delta(choice["message"], value)
            elif value is not None and key not in _PER_PART:
                choice[key] = value


def _add_delta(message: dict[str, Any], delta: dict[str, Any]) -> None:
    for key, value in delta.items():
        if value is None:
            continue
        if key in _JOINED and isinstance(value, str):
            message[key] = (message.get(key) or "") + value
        elif key == "tool_calls" and isinstance(value, list):
            _add_tool_calls(message.setdefault("tool_calls", []), value)
        else:
            message[key] = value


def _add_tool_calls(calls: list[dict[str, Any]], deltas: list[Any]) -> None:
    """``index`` says which call a delta belongs to; names and ids come once, arguments in pieces."""
    for delta in deltas:
        if not isinstance(delta, dict):
            continue
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

"""Anthropic's Messages: system and content blocks in, one assistant's message of blocks out.

A user's turn with tool results becomes a message for each, in order, as SGLang renders it. Thinking is reasoning; its signature,
and thinking that came sealed, stay beside it as ``sealed_reasoning``.
"""

from collections.abc import Iterable
from typing import Any, Final

import msgspec

from dataproxy.drain.dialects.dialect import NormalRequest, objects, reasons, text_of
from dataproxy.drain.dialects.parts import content_of, image_part, text_part, tool_call

_MOVED = frozenset(("system", "messages", "tools"))
_REASONS: Final = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "tool_use": "tool_calls",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "refusal": "content_filter",
}
_DELTAS: Final = {"text_delta": "text", "thinking_delta": "thinking", "signature_delta": "signature", "input_json_delta": "input"}
_PIECES: Final = {"input_json_delta": "partial_json"}


def request(body: dict[str, Any]) -> NormalRequest:
    """The system prompt as the first message, then the turns."""
    system = body.get("system")
    turns = [_message("system", system)] if system else []
    for turn in objects(body.get("messages")):
        turns += _turn(turn)
    rest = {name: value for name, value in body.items() if name not in _MOVED}
    tools = {"tools": [_tool(tool) for tool in body["tools"]]} if isinstance(body.get("tools"), list) else {}
    metadata, prefilled = body.get("metadata"), bool(turns) and turns[-1].get("role") == "assistant"
    user = text_of(metadata.get("user_id")) if isinstance(metadata, dict) else ""
    return NormalRequest({**rest, "messages": turns, **tools}, user, prefilled=prefilled)


def answer(value: dict[str, Any]) -> dict[str, Any]:
    """The message as the only choice."""
    content = value.get("content")
    if value.get("type") != "message" or not isinstance(content, list):
        return value
    given = value.get("stop_reason")
    choice = {"index": 0, "message": _message("assistant", content), **reasons(_REASONS.get(text_of(given), given), given)}
    choice |= {"stop_sequence": value["stop_sequence"]} if value.get("stop_sequence") else {}
    told = ("type", "role", "content", "stop_reason", "stop_sequence", "usage")
    rest = {name: item for name, item in value.items() if name not in told}
    return rest | {"choices": [choice]} | _usage(value.get("usage"))


def joined(events: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """The message put together from its blocks' deltas; ``input`` of a tool use stays the text that the model wrote."""
    whole: dict[str, Any] = {}
    blocks: dict[int, dict[str, Any]] = {}
    for event in events:
        kind, message, delta = event.get("type"), event.get("message"), event.get("delta")
        if kind == "message_start" and isinstance(message, dict):
            whole |= message
        elif kind == "content_block_start" and isinstance(event.get("content_block"), dict):
            blocks[event.get("index", len(blocks))] = _opened(event["content_block"])
        elif kind == "content_block_delta" and isinstance(delta, dict):
            _add_delta(blocks.setdefault(event.get("index", 0), {}), delta)
        elif kind == "message_delta" and isinstance(delta, dict):
            whole |= delta
            whole["usage"] = (whole.get("usage") or {}) | {k: v for k, v in (event.get("usage") or {}).items() if v is not None}
        elif kind == "error":
            whole["error"] = event.get("error")
    if whole.get("type") == "message":
        whole["content"] = [blocks[index] for index in sorted(blocks)] or whole.get("content", [])
    return whole


def _opened(block: dict[str, Any]) -> dict[str, Any]:
    return {**block, "input": ""} if block.get("input") == {} else dict(block)


def _add_delta(block: dict[str, Any], delta: dict[str, Any]) -> None:
    kind = text_of(delta.get("type"))
    if kind == "citations_delta":
        block.setdefault("citations", []).append(delta.get("citation"))
    elif (field := _DELTAS.get(kind)) is not None:
        block.setdefault("type", field)
        block[field] = text_of(block.get(field)) + text_of(delta.get(_PIECES.get(kind, field)))
    else:
        block.setdefault("deltas", []).append(delta)


def _turn(turn: dict[str, Any]) -> list[dict[str, Any]]:
    """A turn's messages: tool results stand on their own, what comes before and after them stays in order."""
    role, content = turn.get("role"), turn.get("content")
    if role == "assistant" or not isinstance(content, list):
        return [_message(role, content)]
    found: list[dict[str, Any]] = []
    waiting: list[dict[str, Any]] = []
    for block in objects(content):
        if block.get("type") != "tool_result":
            waiting.append(block)
            continue
        found += [_message(role, waiting)] if waiting else []
        waiting = []
        found.append(_tool_result(block))
    return [*found, _message(role, waiting)] if waiting or not found else found


def _tool_result(block: dict[str, Any]) -> dict[str, Any]:
    content = block.get("content")
    if isinstance(content, list):
        content = content_of([_part(part) for part in objects(content)])
    failed = {"is_error": True} if block.get("is_error") else {}
    return {"role": "tool", "tool_call_id": block.get("tool_use_id") or block.get("id"), "content": content} | failed


def _message(role: Any, content: Any) -> dict[str, Any]:
    if not isinstance(content, list):
        return {"role": role, "content": content}
    parts, calls, thoughts, sealed = [], [], [], []
    for block in objects(content):
        kind = block.get("type")
        if kind == "tool_use":
            calls.append(tool_call(block.get("id"), block.get("name"), _arguments(block.get("input"))))
        elif kind == "thinking":
            thoughts.append(text_of(block.get("thinking")))
            sealed += [block["signature"]] if block.get("signature") else []
        elif kind == "redacted_thinking":
            sealed.append(block.get("data"))
        else:
            parts.append(_part(block))
    message: dict[str, Any] = {"role": role, "content": content_of(parts)}
    message |= {"reasoning_content": "".join(thoughts)} if thoughts else {}
    message |= {"sealed_reasoning": sealed} if sealed else {}
    return message | ({"tool_calls": calls} if calls else {})


def _part(block: dict[str, Any]) -> dict[str, Any]:
    kind, source = block.get("type"), block.get("source")
    if kind == "text":
        return text_part(block.get("text"), block)
    if kind == "image" and isinstance(source, dict):
        if source.get("type") == "base64":
            return image_part(f"data:{source.get('media_type', 'image/png')};base64,{text_of(source.get('data'))}")
        if isinstance(source.get("url"), str):
            return image_part(source["url"])
    return {name: value for name, value in block.items() if name != "cache_control"}


def _arguments(given: Any) -> str:
    """A tool use's input as the model's text: what a stream brought, or the JSON of an object."""
    return (given or "{}") if isinstance(given, str) else msgspec.json.encode(given if given is not None else {}).decode()


def _tool(tool: Any) -> Any:
    if not isinstance(tool, dict) or "input_schema" not in tool:
        return tool
    rest = {name: value for name, value in tool.items() if name not in ("type", "input_schema", "cache_control")}
    return {"type": "function", "function": {**rest, "parameters": tool["input_schema"]}}


def _usage(usage: Any) -> dict[str, Any]:
    """The counts under the names of chat completions beside Anthropic's own, which count cached tokens apart."""
    if not isinstance(usage, dict):
        return {}
    parts = ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
    prompt, completion = sum(usage.get(name) or 0 for name in parts), usage.get("output_tokens") or 0
    counts = {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion}
    return {"usage": {name: value for name, value in usage.items() if value is not None} | counts}

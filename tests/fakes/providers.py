"""Scripted model providers, spoken to by whoever takes them for OpenAI or Anthropic. No model: the last user's text comes back.

A model called ``fail-<status>`` answers that status in the provider's form of an error, ``silent`` never answers, ``cut`` breaks
its stream off after the first text, ``overloaded`` ends it there with the provider's error event.
"""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

Scope = Any
_USAGE = {"prompt_tokens": 10, "completion_tokens": 4, "total_tokens": 14}


class Providers:
    """An ASGI application with both providers' paths.

    ``seen`` holds (path, body, headers) of every call; ``left`` is set when a caller of ``silent`` has gone.
    """

    def __init__(self) -> None:
        self.asked_stored: list[tuple[str, str]] = []
        self.left = asyncio.Event()
        self.arrived = asyncio.Event()
        self.seen: list[tuple[str, dict[str, Any], dict[str, str]]] = []

    async def __call__(self, scope: Scope, receive: Any, send: Any) -> None:
        """One request."""
        if scope["type"] != "http":
            return
        if scope["method"] in ("GET", "DELETE") or scope["path"].endswith("/cancel"):
            await _json(send, 200, self._stored(scope["method"], scope["path"]))
            return
        body = json.loads(await _read(receive) or b"{}")
        headers = {name.decode(): value.decode() for name, value in scope["headers"]}
        self.seen.append((scope["path"], body, headers))
        path, model = scope["path"], str(body.get("model", ""))
        is_anthropic = path.endswith("/messages")
        if model.startswith("fail-"):
            status = int(model.removeprefix("fail-"))
            await _json(send, status, _error(status, is_anthropic))
        elif model == "silent":
            await self._say_nothing(receive)
        elif path.endswith("/embeddings"):
            data = [{"object": "embedding", "index": 0, "embedding": [0.5, -0.5]}]
            await _json(
                send, 200, {"object": "list", "model": model, "data": data, "usage": {"prompt_tokens": 2, "total_tokens": 2}}
            )
        elif body.get("stream"):
            await _stream(
                send, _broken_off(model, is_anthropic, _anthropic_events(body) if is_anthropic else _openai_events(path, body))
            )
        else:
            await _json(send, 200, _anthropic(body) if is_anthropic else _openai(path, body))

    def _stored(self, method: str, path: str) -> dict[str, Any]:
        """A response that is kept; ``asked_stored`` notes what was asked."""
        self.asked_stored.append((method, path))
        if method == "DELETE":
            return {"id": "resp_p", "object": "response", "deleted": True}
        body = {"model": "gpt-4o-mini", "input": "hi"}
        return _response(body, "completed", [_item(body)])

    async def _say_nothing(self, receive: Any) -> None:
        self.arrived.set()
        while (await receive())["type"] != "http.disconnect":
            pass
        self.left.set()


def _broken_off(model: str, is_anthropic: bool, events: list[tuple[str, Any]]) -> list[tuple[str, Any]]:
    """The events of a stream that ends early: None is where the connection is cut."""
    if model not in ("cut", "overloaded"):
        return events
    first = next(i for i, (_, value) in enumerate(events) if "echo h" in json.dumps(value))
    error = _error(503, is_anthropic)
    last = ("", None) if model == "cut" else ("error", error) if is_anthropic else ("", error)
    return [*events[: first + 1], last]


def _error(status: int, is_anthropic: bool) -> dict[str, Any]:
    if is_anthropic:
        return {
            "type": "error",
            "error": {"type": "rate_limit_error" if status == 429 else "api_error", "message": f"scripted {status}"},
        }
    return {"error": {"message": f"scripted {status}", "type": "scripted", "param": None, "code": "scripted"}}


def _said(body: dict[str, Any]) -> str:
    if "prompt" in body:
        return f"echo {body['prompt']}"
    turns = body.get("messages") or body.get("input")
    content = turns if isinstance(turns, str) else turns[-1]["content"]
    return f"echo {content if isinstance(content, str) else content[-1].get('text')}"


def _head(body: dict[str, Any], kind: str) -> dict[str, Any]:
    return {"id": "provider-id", "object": kind, "created": 1, "model": body["model"]}


def _openai(path: str, body: dict[str, Any]) -> dict[str, Any]:
    if path.endswith("/responses"):
        return _response(body, "completed", [_item(body)])
    if path.endswith("/chat/completions"):
        call = {"id": "call_p", "type": "function", "function": {"name": "weather", "arguments": '{"city": "Oslo"}'}}
        message = {"role": "assistant", "content": _said(body)} | ({"tool_calls": [call]} if body.get("tools") else {})
        choice = {"index": 0, "message": message, "finish_reason": "tool_calls" if body.get("tools") else "stop"}
        return _head(body, "chat.completion") | {"choices": [choice], "usage": _USAGE}
    choice = {"index": 0, "text": _said(body), "finish_reason": "stop", "logprobs": None}
    return _head(body, "text_completion") | {"choices": [choice], "usage": _USAGE}


def _item(body: dict[str, Any]) -> dict[str, Any]:
    content = [{"type": "output_text", "text": _said(body), "annotations": []}]
    return {"type": "message", "id": "msg_p", "role": "assistant", "status": "completed", "content": content}


def _response(body: dict[str, Any], status: str, output: list[Any]) -> dict[str, Any]:
    usage = {"input_tokens": 10, "output_tokens": 4, "total_tokens": 14}
    usage |= {"input_tokens_details": {"cached_tokens": 0}, "output_tokens_details": {"reasoning_tokens": 0}}  # type: ignore[dict-item]
    head = {"id": "resp_p", "object": "response", "created_at": 1, "model": body["model"], "parallel_tool_calls": True}
    tail = {"tool_choice": "auto", "tools": [], "error": None, "incomplete_details": None, "instructions": None, "metadata": {}}
    return head | tail | {"status": status, "output": output, "usage": usage if status == "completed" else None}


def _openai_events(path: str, body: dict[str, Any]) -> list[tuple[str, Any]]:
    if path.endswith("/responses"):
        text, item = _said(body), _item(body)
        opened = {**item, "status": "in_progress", "content": []}
        part = {"type": "output_text", "text": "", "annotations": []}
        at = {"output_index": 0, "content_index": 0, "item_id": "msg_p"}
        return [
            ("response.created", {"response": _response(body, "in_progress", [])}),
            ("response.output_item.added", {"output_index": 0, "item": opened}),
            ("response.content_part.added", {**at, "part": part}),
            *(("response.output_text.delta", {**at, "delta": piece, "logprobs": []}) for piece in (text[:6], text[6:])),
            ("response.output_text.done", {**at, "text": text, "logprobs": []}),
            ("response.content_part.done", {**at, "part": {**part, "text": text}}),
            ("response.output_item.done", {"output_index": 0, "item": item}),
            ("response.completed", {"response": _response(body, "completed", [item])}),
        ]
    is_chat, text = path.endswith("/chat/completions"), _said(body)
    head = _head(body, "chat.completion.chunk" if is_chat else "text_completion")

    def chunk(piece: str, reason: str | None) -> dict[str, Any]:
        said = {"delta": {"role": "assistant", "content": piece}} if is_chat else {"text": piece, "logprobs": None}
        return head | {"choices": [{"index": 0, **said, "finish_reason": reason}]}

    events: list[tuple[str, Any]] = [("", chunk(text[:6], None)), ("", chunk(text[6:], None)), ("", chunk("", "stop"))]
    if (body.get("stream_options") or {}).get("include_usage"):
        events.append(("", head | {"choices": [], "usage": _USAGE}))
    return [*events, ("", "[DONE]")]


def _anthropic(body: dict[str, Any]) -> dict[str, Any]:
    content: list[dict[str, Any]] = [{"type": "text", "text": _said(body)}]
    if body.get("tools"):
        content.append({"type": "tool_use", "id": "toolu_p", "name": "weather", "input": {"city": "Oslo"}})
    head = {"id": "msg_p", "type": "message", "role": "assistant", "model": body["model"], "stop_sequence": None}
    reason = "tool_use" if body.get("tools") else "end_turn"
    return head | {"content": content, "stop_reason": reason, "usage": {"input_tokens": 10, "output_tokens": 4}}


def _anthropic_events(body: dict[str, Any]) -> list[tuple[str, Any]]:
    text = _said(body)
    start = _anthropic(body) | {"content": [], "stop_reason": None, "usage": {"input_tokens": 10, "output_tokens": 1}}
    block = {"type": "text", "text": ""}
    deltas = [{"index": 0, "delta": {"type": "text_delta", "text": piece}} for piece in (text[:6], text[6:])]
    return [
        ("message_start", {"message": start}),
        ("content_block_start", {"index": 0, "content_block": block}),
        ("ping", {}),
        *(("content_block_delta", delta) for delta in deltas),
        ("content_block_stop", {"index": 0}),
        ("message_delta", {"delta": {"stop_reason": "end_turn", "stop_sequence": None}, "usage": {"output_tokens": 4}}),
        ("message_stop", {}),
    ]


async def _stream(send: Any, events: list[tuple[str, Any]]) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/event-stream")]})
    for name, value in events:
        if value is None:
            raise ConnectionResetError("scripted")
        data = value if isinstance(value, str) else json.dumps({"type": name, **value} if name else value)
        head = f"event: {name}\n" if name else ""
        await send({"type": "http.response.body", "body": f"{head}data: {data}\n\n".encode(), "more_body": True})
    await send({"type": "http.response.body", "body": b""})


async def _json(send: Any, status: int, value: Any) -> None:
    headers = [(b"content-type", b"application/json")] + ([(b"retry-after", b"7")] if status == 429 else [])
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": json.dumps(value).encode()})


async def _read(receive: Any) -> bytes:
    return b"".join([part async for part in _parts(receive)])


async def _parts(receive: Any) -> AsyncIterator[bytes]:
    while True:
        message = await receive()
        yield message.get("body", b"")
        if not message.get("more_body"):
            return

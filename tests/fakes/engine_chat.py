"""The fake engine's chat completions, streamed and not, in SGLang's bytes. A raw script takes its place where a test sets one."""

import asyncio
import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tests.fakes.generation import Sample, recorder, render
from workers.inference.middleware import SCOPE_KEY

if TYPE_CHECKING:
    from tests.fakes.engine import FakeEngine


@dataclass
class Call:
    """A chat call as it arrived."""

    headers: dict[str, str]
    body: bytes


@dataclass
class Script:
    """A raw answer: pieces of the body, or events to wait for; ``cut`` breaks the connection after the last piece."""

    pieces: list[bytes | asyncio.Event]
    status: int = 200
    content_type: str = "text/event-stream; charset=utf-8"
    headers: dict[str, str] = field(default_factory=dict)
    cut: bool = False


class ChatHandler:
    """ASGI application for POST /v1/chat/completions."""

    def __init__(self, engine: "FakeEngine") -> None:
        self._engine = engine

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        body, more = b"", True
        while more:
            message = await receive()
            body += message.get("body", b"")
            more = message.get("more_body", False)
        self._engine.calls.append(Call({k.decode(): v.decode("latin-1") for k, v in scope["headers"]}, body))
        watcher = asyncio.ensure_future(self._watch(receive, asyncio.current_task()))
        try:
            await self._answer(scope, body, send)
        except asyncio.CancelledError:
            self._engine.disconnects += 1
        finally:
            watcher.cancel()

    async def _watch(self, receive: Any, task: Any) -> None:
        await receive()
        task.cancel()

    async def _answer(self, scope: Any, raw: bytes, send: Any) -> None:
        if self._engine.script is not None:
            await play(self._engine.script, send)
            return
        try:
            body = json.loads(raw)
            assert isinstance(body["messages"], list)
        except (ValueError, KeyError, AssertionError) as error:
            problem = {"object": "error", "message": repr(error), "type": "Bad Request", "param": None, "code": 400}
            await send_json(send, 400, problem)
            return
        order = scope.get(SCOPE_KEY)
        rid = (order.rid if order is not None else None) or body.get("rid") or f"fake-{len(self._engine.calls)}"
        if rid in self._engine.model.running:
            await send_json(
                send, 400, {"object": "error", "message": f"Duplicate request ID {rid}", "type": "Bad Request", "code": 400}
            )
            return
        self._engine.model.running[rid] = asyncio.Event()
        try:
            if order is not None and order.wants_record:
                order.record = recorder(rid, body)
            await (self._stream if body.get("stream") else self._whole)(rid, body, order, send)
        finally:
            del self._engine.model.running[rid]

    async def _stream(self, rid: str, body: dict[str, Any], order: Any, send: Any) -> None:
        head = {"id": rid, "object": "chat.completion.chunk", "created": 1, "model": body["model"]}
        headers = [(b"content-type", b"text/event-stream; charset=utf-8")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})

        async def event(choice: dict[str, Any]) -> None:
            await send_event(send, {**head, "choices": [choice], "usage": None})

        finished: list[Sample] = []
        for index in range(body.get("n", 1)):
            await event(chunk(index, {"role": "assistant", "content": ""}, None))
            pending = b""
            async for sample, byte in self._engine.model.sample(rid, body, index):
                pending += byte
                text, pending = decodable(pending, sample.finish_reason is not None)
                if text:
                    await event(chunk(index, {"role": None, "content": text}, None))
            finished.append(sample)
            note_output(order, sample)
        for sample in finished:  # all at the end, as SGLang does
            await event(chunk(sample.index, {"role": None, "content": None}, sample.finish_reason))
        if (body.get("stream_options") or {}).get("include_usage"):
            await send_event(send, {**head, "choices": [], "usage": usage(body, sum(len(sample.ids) for sample in finished))})
        await send({"type": "http.response.body", "body": b"data: [DONE]\n\n", "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _whole(self, rid: str, body: dict[str, Any], order: Any, send: Any) -> None:
        choices, num_tokens = [], 0
        for index in range(body.get("n", 1)):
            pieces = [piece async for piece in self._engine.model.sample(rid, body, index)]
            sample, text = pieces[-1][0], b"".join(byte for _, byte in pieces)
            num_tokens += len(sample.ids)
            note_output(order, sample)
            message = {"role": "assistant", "content": text.decode(errors="replace"), "reasoning_content": None}
            choices.append(
                {"index": index, "message": message, "logprobs": None, "finish_reason": sample.finish_reason, "matched_stop": None}
            )
        answer = {"id": rid, "object": "chat.completion", "created": 1, "model": body["model"], "choices": choices}
        await send_json(
            send, 200, {**answer, "usage": usage(body, num_tokens), "metadata": {"weight_version": self._engine.model.version}}
        )


def note_output(order: Any, sample: Sample) -> None:
    """Put a finished choice into the record, if one is wanted."""
    if order is not None and order.record is not None:
        order.record.on_output(sample.index, sample.output())


def chunk(index: int, delta: dict[str, Any], finish_reason: str | None) -> dict[str, Any]:
    """One choice of a streamed chunk."""
    delta = {**delta, "reasoning_content": None}
    return {"index": index, "delta": delta, "logprobs": None, "finish_reason": finish_reason, "matched_stop": None}


def usage(body: dict[str, Any], num_output: int) -> dict[str, int]:
    """Token counts."""
    num_prompt = len(render(body["messages"]))
    return {"prompt_tokens": num_prompt, "total_tokens": num_prompt + num_output, "completion_tokens": num_output}


def decodable(pending: bytes, last: bool) -> tuple[str, bytes]:
    """The text that is whole so far, and the bytes of a character that is not."""
    try:
        return pending.decode(), b""
    except UnicodeDecodeError:
        return (pending.decode(errors="replace"), b"") if last else ("", pending)


async def send_event(send: Any, data: dict[str, Any]) -> None:
    """One server-sent event in one write, compact as SGLang's."""
    text = json.dumps(data, separators=(",", ":"), ensure_ascii=False)
    await send({"type": "http.response.body", "body": f"data: {text}\n\n".encode(), "more_body": True})


async def send_json(send: Any, status: int, data: dict[str, Any]) -> None:
    """A JSON answer."""
    body = json.dumps(data, separators=(",", ":"), ensure_ascii=False).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body, "more_body": False})


async def play(script: Script, send: Any) -> None:
    """Send ``script``; a cut returns without an end, and the server drops the connection."""
    headers = [(k.encode(), v.encode()) for k, v in {"content-type": script.content_type, **script.headers}.items()]
    await send({"type": "http.response.start", "status": script.status, "headers": headers})
    for piece in script.pieces:
        if isinstance(piece, asyncio.Event):
            await piece.wait()
        else:
            await send({"type": "http.response.body", "body": piece, "more_body": True})
    if not script.cut:
        await send({"type": "http.response.body", "body": b"", "more_body": False})

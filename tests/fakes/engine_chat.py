"""The fake engine's generating calls, in the dialect of their path. A raw script takes an answer's place where a test sets one."""

import asyncio
import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tests.fakes.dialects.call import Dialect, Refused, Running, send_json
from tests.fakes.generation import recorder
from workers.inference.middleware import SCOPE_KEY

if TYPE_CHECKING:
    from tests.fakes.engine import FakeEngine


@dataclass
class Call:
    """A generating call as it arrived."""

    headers: dict[str, str]
    body: bytes
    path: str = "/v1/chat/completions"


@dataclass
class Script:
    """A raw answer: pieces of the body, or events to wait for; ``cut`` breaks the connection after the last piece."""

    pieces: list[bytes | asyncio.Event]
    status: int = 200
    content_type: str = "text/event-stream; charset=utf-8"
    headers: dict[str, str] = field(default_factory=dict)
    cut: bool = False


class CallHandler:
    """ASGI application for the paths of ``dialects``."""

    def __init__(self, engine: "FakeEngine", dialects: dict[str, Dialect]) -> None:
        self._engine = engine
        self._dialects = dialects

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        body, more = b"", True
        while more:
            message = await receive()
            body += message.get("body", b"")
            more = message.get("more_body", False)
        headers = {k.decode(): v.decode("latin-1") for k, v in scope["headers"]}
        self._engine.calls.append(Call(headers, body, scope["path"]))
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
        dialect, order = self._dialects[scope["path"]], scope.get(SCOPE_KEY)
        try:
            call = self._admit(dialect, raw, order)
        except Refused as refusal:
            await send_json(send, refusal.status, dialect.error(refusal.status, str(refusal)))
            return
        self._engine.model.running[call.rid] = asyncio.Event()
        try:
            if order is not None and order.wants_record:
                order.record = recorder(call.rid, call.chat)
            await (dialect.stream if call.body.get("stream") else dialect.whole)(call, send)
        finally:
            del self._engine.model.running[call.rid]

    def _admit(self, dialect: Dialect, raw: bytes, order: Any) -> Running:
        try:
            body = json.loads(raw)
        except ValueError as error:
            raise Refused(repr(error)) from error
        if not isinstance(body, dict):
            raise Refused("the body is not a JSON object")
        if not isinstance(body.get("temperature") or 0, int | float):
            raise Refused("temperature: Input should be a valid number")
        chat = dialect.as_chat(body)
        rid = (order.rid if order is not None else None) or body.get("rid") or f"{dialect.prefix}fake-{len(self._engine.calls)}"
        if rid in self._engine.model.running:
            raise Refused(f"Duplicate request ID {rid}")
        return Running(rid, {"model": self._engine.model_name, **body}, chat, self._engine.model, order)


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

"""How an answer begins: a stream that opens with the engine's refusal becomes that refusal, with its status.

Pure ASGI, as `middleware`, which puts it before the writer of the record. Not owned: what is refused. Place in the path: step 1,
outermost in the HTTP process of the engine.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

import msgspec

Message = MutableMapping[str, Any]
Send = Callable[[Message], Awaitable[None]]


class Opening:
    """Passes the messages of an answer on. A stream that opens with the engine's refusal becomes that refusal, with its status.

    SGLang refuses a grammar that it cannot compile after it has begun a stream: a 200 with an error inside.
    """

    def __init__(self, send: Send, is_held: bool) -> None:
        self._send = send
        self._is_held = is_held
        self._start: Message | None = None
        self._is_refused = False
        self.has_begun = False

    async def send(self, message: Message) -> None:
        self.has_begun = True
        if self._is_held and message["type"] == "http.response.start" and kind_of(message).startswith(b"text/event-stream"):
            self._start = message
            return
        if self._start is not None:
            start, self._start = self._start, None
            refusal = _refusal(message.get("body", b""))
            if refusal is not None:
                self._is_refused = True
                await answer(self._send, *refusal)
            else:
                await self._send(start)
        if not self._is_refused:
            await self._send(message)


def _refusal(event: bytes) -> tuple[int, bytes] | None:
    """Status and body of the whole answer that the first event of a stream stands for."""
    if not event.startswith(b'data: {"error"'):
        return None
    error = msgspec.json.decode(event.partition(b"\n\n")[0].removeprefix(b"data: "))["error"]
    return (error["code"], msgspec.json.encode(error)) if 400 <= error["code"] < 500 else None


async def answer(send: Send, status: int, body: bytes) -> None:
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body, "more_body": False})


def kind_of(start: Message) -> bytes:
    return next((value for name, value in start["headers"] if name.lower() == b"content-type"), b"")

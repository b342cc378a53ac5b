"""An engine at the level of bytes: it answers what a gateway polls, and a test's own coroutine takes the generating calls."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]
Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]

STREAM_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\ntransfer-encoding: chunked\r\n\r\n"
_MODELS = {"object": "list", "data": [{"id": "tiny", "object": "model", "created": 1, "owned_by": "test"}]}
_POLLS = {"/ready": {}, "/health": {}, "/v1/models": _MODELS, "/v1/loads": {"loads": []}}


def chunk(data: bytes) -> bytes:
    """``data`` as one chunk of a chunked body."""
    return b"%x\r\n%b\r\n" % (len(data), data)


END = b"0\r\n\r\n"


@dataclass
class RawEngine:
    """``handler`` gets the connection of each generating call once its request is read; the connection is closed after it.

    ``asked`` are the request heads and bodies, ``aborted`` the rids of abort requests; a ``hung`` engine answers nothing at all.
    """

    handler: Handler
    hung: bool = False
    asked: list[tuple[str, bytes]] = field(default_factory=list)
    aborted: list[str] = field(default_factory=list)
    _open: set[asyncio.StreamWriter] = field(default_factory=set)

    @asynccontextmanager
    async def serve(self) -> AsyncIterator[str]:
        """Its base URL while the context lasts."""
        server = await asyncio.start_server(self._connection, "127.0.0.1", 0)
        try:
            yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        finally:
            server.close()
            for writer in list(self._open):
                writer.transport.abort()

    async def _connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open.add(writer)
        try:
            while await self._exchange(reader, writer):
                pass
        except (asyncio.IncompleteReadError, ConnectionError):
            pass  # the gateway has hung up
        finally:
            self._open.discard(writer)
            writer.close()

    async def _exchange(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        length = next((int(line[15:]) for line in head.lower().split("\r\n") if line.startswith("content-length:")), 0)
        body = await reader.readexactly(length)
        if self.hung:
            await reader.read()
            return False
        method, path = head.split()[0], head.split()[1].partition("?")[0]
        if method == "GET":
            _reply(writer, json.dumps(_POLLS.get(path, {})).encode(), 200 if path in _POLLS else 404)
            return True
        if path == "/abort_request":
            self.aborted.append(json.loads(body)["rid"])
            _reply(writer, b"{}")
            return True
        self.asked.append((head, body))
        await self.handler(reader, writer)
        return False


def _reply(writer: asyncio.StreamWriter, body: bytes, status: int = 200) -> None:
    head = b"HTTP/1.1 %d \r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % (status, len(body))
    writer.write(head + body)

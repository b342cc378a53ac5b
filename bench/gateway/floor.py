"""The floor under a gateway in Python: uvloop and httptools on both sides, bytes passed on as they come, none of the duties.

``python -m bench.gateway.floor PORT ENGINE_PORT``. It parses what it must to know where a request ends (its head) and where an
answer ends (the engine's framing), and keeps one engine connection for each agent connection: no pool, no errors, no limits.
"""

import asyncio
import sys
from typing import Any

import httptools
import uvloop


class Upstream(asyncio.Protocol):
    """The engine's side: passes every read on; the parser is fed only so that the answer's framing is known."""

    def __init__(self, agent: "Agent") -> None:
        self._agent = agent
        self._parser = httptools.HttpResponseParser(self)

    def connection_made(self, transport: Any) -> None:
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self._parser.feed_data(data)
        self._agent.transport.write(data)

    def on_message_complete(self) -> None:
        self._parser = httptools.HttpResponseParser(self)


class Agent(asyncio.Protocol):
    """The agent's side. A request is passed on once it is whole."""

    engine_port = 0

    def connection_made(self, transport: Any) -> None:
        self.transport = transport
        self._upstream: Upstream | None = None
        self._reset()

    def _reset(self) -> None:
        self._parser = httptools.HttpRequestParser(self)
        self._body: list[bytes] = []
        self._headers: list[tuple[bytes, bytes]] = []

    def data_received(self, data: bytes) -> None:
        self._parser.feed_data(data)

    def on_url(self, url: bytes) -> None:
        self._url = url

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers.append((name, value))

    def on_body(self, body: bytes) -> None:
        self._body.append(body)

    def on_message_complete(self) -> None:
        lines = [b"%s %s HTTP/1.1\r\n" % (self._parser.get_method(), self._url)]
        lines += [b"%s: %s\r\n" % header for header in self._headers]
        request = b"".join((*lines, b"\r\n", *self._body))
        self._reset()
        if self._upstream is None:
            self._task = asyncio.ensure_future(self._connect(request))
        else:
            self._upstream.transport.write(request)

    async def _connect(self, request: bytes) -> None:
        loop = asyncio.get_running_loop()
        _, self._upstream = await loop.create_connection(lambda: Upstream(self), "127.0.0.1", self.engine_port)
        self._upstream.transport.write(request)

    def connection_lost(self, error: Exception | None) -> None:
        if self._upstream is not None:
            self._upstream.transport.close()


async def serve(port: int, engine_port: int) -> None:
    """Listen for ever."""
    Agent.engine_port = engine_port
    server = await asyncio.get_running_loop().create_server(Agent, "127.0.0.1", port, backlog=2048)
    await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(serve(int(sys.argv[1]), int(sys.argv[2])))

"""Serves an ASGI application on a free port, or a Unix socket, of this machine, inside the test's own event loop."""

import asyncio
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import uvicorn


class _Server(uvicorn.Server):
    """uvicorn without its signal handlers, which belong to the test run, and without its clock, which would cost each test 0.1 s
    a server at its end.

    ``listening`` is set once it serves; set ``stopping`` to end it.
    """

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.listening = asyncio.Event()
        self.stopping = asyncio.Event()

    async def main_loop(self) -> None:
        await self.on_tick(0)
        await self.stopping.wait()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.listening.set()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        for server in self.servers:
            server.close()
        if self.server_state.tasks:
            _, late = await asyncio.wait(self.server_state.tasks, timeout=self.config.timeout_graceful_shutdown)
            for task in late:
                task.cancel()
        await self.lifespan.shutdown()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


@asynccontextmanager
async def serve(
    app: Any,
    *,
    unix_socket: Path | None = None,
    port: int = 0,
    lifespan: str = "on",
    http: Any = "httptools",
    certificate: Path | None = None,
) -> AsyncIterator[str]:
    """The base URL of ``app`` while the context lasts; connections that are still open at its end are dropped.

    ``http`` is the protocol of connections, as uvicorn takes it; ``port`` 0 takes a free one. With a ``certificate`` (PEM, with its
    key in the same file) it speaks TLS.
    """
    if unix_socket is None:
        listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)  # asyncio sets TCP_NODELAY if it sees TCP
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, port != 0)
        listener.bind(("127.0.0.1", port))
        url = f"{'http' if certificate is None else 'https'}://127.0.0.1:{listener.getsockname()[1]}"
    else:
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(str(unix_socket))
        url = "http://unix"
    config = uvicorn.Config(
        app,
        lifespan=lifespan,
        http=http,
        ws="none",
        access_log=False,
        log_config=None,
        server_header=False,
        timeout_keep_alive=75,
        timeout_graceful_shutdown=1,
        ssl_certfile=certificate,
    )
    server = _Server(config)
    task = asyncio.create_task(server.serve(sockets=[listener]))
    await server.listening.wait()
    try:
        yield url
    finally:
        for connection in list(server.server_state.connections):
            connection.transport.abort()
        await asyncio.sleep(0)  # the loop tells the connections
        server.stopping.set()
        await task
        listener.close()

"""One keep-alive connection to an upstream, on httptools. One exchange at a time: ``start``, ``head``, then ``read`` until empty.

Whatever one read from the socket brings comes out of one ``read`` call. A reader that falls behind pauses the socket.
"""

import asyncio
import socket
from dataclasses import dataclass, field
from typing import cast

import httptools

from gateway.errors import GatewayError, UpstreamLost
from gateway.upstream.limits import Limits

HIGH_WATER_BYTES = 256 * 1024
Headers = list[tuple[bytes, bytes]]


@dataclass(slots=True)
class Head:
    """Status and headers of an answer; header names are lower-case."""

    status: int
    headers: Headers = field(default_factory=list)

    def get(self, name: bytes) -> bytes:
        """The first value of ``name``, or empty."""
        return next((value for key, value in self.headers if key == name), b"")


class Connection(asyncio.Protocol):
    """See the module. ``reusable`` says whether another exchange may follow once this one has ended."""

    def __init__(self) -> None:
        self.limits = Limits()
        self.idle_since = 0.0
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._error: GatewayError | None = None
        self._closed = False
        self._reset()

    def _reset(self) -> None:
        self._parser = httptools.HttpResponseParser(self)
        self._head = Head(0)
        self._head_complete = self._complete = self._delimited = self._keep_alive = False
        self._body: list[bytes] = []
        self._buffered_bytes = 0
        self._paused = False

    @property
    def reusable(self) -> bool:
        """Whether the exchange ended cleanly and both sides want to keep the connection."""
        return self._complete and self._keep_alive and not self.closed

    @property
    def closed(self) -> bool:
        """Whether the connection can carry nothing more."""
        return self._closed or self._error is not None

    def start(self, request: bytes, limits: Limits) -> None:
        """Send ``request``, head and body in one piece. The time limits count from now."""
        assert self._transport is not None
        self._reset()
        self.limits = limits
        self._transport.write(request)

    async def head(self) -> Head:
        """Status and headers, once they are here.

        Raises:
            UpstreamError: lost or too late. GatewayError: what ``abort`` was given.
        """
        while not self._head_complete:
            await self._wait()
        return self._head

    async def read(self) -> bytes:
        """The body bytes that came since the last call, at least one; empty at the clean end.

        Raises:
            UpstreamError: lost or too late. GatewayError: what ``abort`` was given.
        """
        while not self._body and not self._complete:
            await self._wait()
        data = self._body[0] if len(self._body) == 1 else b"".join(self._body)
        self._body.clear()
        self._buffered_bytes = 0
        if self._paused and self._transport is not None and not self._closed:
            self._paused = False
            self.limits.touch(self._loop.time())
            self._transport.resume_reading()
        return data

    def abort(self, error: GatewayError) -> None:
        """Drop the connection at once; whoever waits on it gets ``error``."""
        if self._error is None and not self._complete:
            self._error = error
        if self._transport is not None:
            self._transport.abort()
        self._wake()

    async def _wait(self) -> None:
        if self._error is not None:
            raise self._error
        self._waiter = self._loop.create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's transports have its methods but not its type
        raw = transport.get_extra_info("socket")
        if raw is not None and raw.family in {socket.AF_INET, socket.AF_INET6}:
            raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def data_received(self, data: bytes) -> None:
        if self._complete or self._error is not None:
            self.abort(UpstreamLost("the upstream sent bytes that belong to no answer", answered=True))
            return
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError:
            self.abort(UpstreamLost("the upstream's answer is not HTTP", answered=True))
            return
        if self._buffered_bytes > HIGH_WATER_BYTES and not self._paused and self._transport is not None:
            self._paused = True
            self.limits.suspend()
            self._transport.pause_reading()
        elif not self._paused:
            self.limits.touch(self._loop.time())
        self._wake()

    def connection_lost(self, exc: Exception | None) -> None:
        self._closed = True
        if self._error is None and not self._complete:
            if exc is None and self._head_complete and not self._delimited:
                self._complete = True
            else:
                self._error = UpstreamLost("the connection broke before the answer was whole", answered=self._head.status > 0)
        self._wake()

    # httptools callbacks

    def on_header(self, name: bytes, value: bytes) -> None:
        name = name.lower()
        self._delimited |= name in {b"content-length", b"transfer-encoding"}
        self._head.headers.append((name, value))

    def on_headers_complete(self) -> None:
        status = self._parser.get_status_code()
        if status < 200:
            self._head = Head(0)
            return
        self._head.status = status
        self._keep_alive = bool(self._parser.should_keep_alive())
        self._head_complete = True

    def on_body(self, body: bytes) -> None:
        self._body.append(body)
        self._buffered_bytes += len(body)

    def on_message_complete(self) -> None:
        if self._head_complete:
            self._complete = True

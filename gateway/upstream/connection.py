"""One keep-alive connection to an upstream, on httptools. One exchange at a time; what comes is told to its ``Receiver`` at once.

Whatever one read from the socket brings is one ``on_data``. A receiver that cannot keep up pauses the connection.
"""

import asyncio
import math
import socket
from typing import Protocol, cast

import httptools
import msgspec

from gateway.errors import GatewayError, UpstreamLost
from gateway.known_head import KnownHead
from gateway.upstream.limits import NO_LIMITS, Limits

Headers = list[tuple[bytes, bytes]]


class Head(msgspec.Struct):
    """Status and headers of an answer; header names are lower-case. A later answer may have the same head."""

    status: int
    headers: Headers = []
    relayed: bytes | None = None
    """The lines that the agent sees of it, once somebody has encoded them."""
    is_stream: bool | None = None
    """Whether the body is server-sent events, once somebody has looked."""

    def get(self, name: bytes) -> bytes:
        """The first value of ``name``, or empty."""
        for key, value in self.headers:
            if key == name:
                return value
        return b""


class Receiver(Protocol):
    """Whom an exchange is told to: ``on_head``, then ``on_data`` as often as bytes come, then ``on_end`` or ``on_lost``, once."""

    def on_head(self, head: Head) -> None:
        """Status and headers are here."""

    def on_data(self, data: bytes) -> None:
        """Bytes of the body, at least one: all that came in one read."""

    def on_end(self) -> None:
        """The answer is whole."""

    def on_lost(self, error: GatewayError) -> None:
        """The answer will not become whole; the connection is dropped. Nothing follows."""


class Connection(asyncio.Protocol):
    """See the module. ``reusable`` says whether another exchange may follow once this one has ended."""

    def __init__(self) -> None:
        self.idle_since = 0.0
        self.closed = False
        """Whether the connection can carry nothing more."""
        self._loop = asyncio.get_running_loop()
        self._parser = httptools.HttpResponseParser(self)
        self._transport: asyncio.Transport | None = None
        self._receiver: Receiver | None = None
        self._known: KnownHead[Head] | None = None
        self._head = Head(0)
        self._limits: Limits = NO_LIMITS
        self._started = self._heard = math.inf
        self._reset()

    def _reset(self) -> None:
        self._head_complete = self._complete = self._delimited = self._keep_alive = False
        self._paused = False
        self._body: list[bytes] = []

    @property
    def reusable(self) -> bool:
        """Whether the exchange ended cleanly and both sides want to keep the connection."""
        return self._complete and self._keep_alive and not self.closed

    def start(self, request: bytes, receiver: Receiver, limits: Limits = NO_LIMITS) -> None:
        """Send ``request``, head and body in one piece. The time limits count from now."""
        assert self._transport is not None
        self._reset()
        self._receiver = receiver
        self._limits = limits
        self._started = self._loop.time()
        self._heard = math.inf
        self._transport.write(request)

    def pause(self) -> None:
        """Read nothing for now: only the total time still counts."""
        if not self._paused and self._transport is not None and not self.closed:
            self._paused = True
            self._transport.pause_reading()

    def resume(self) -> None:
        """Read on."""
        if self._paused and self._transport is not None and not self.closed:
            self._paused = False
            self._heard = self._loop.time()
            self._transport.resume_reading()

    def abort(self, error: GatewayError) -> None:
        """Drop the connection at once; the receiver of an answer that is not whole gets ``error``."""
        self.closed = True
        if self._transport is not None:
            self._transport.abort()
        self._lose(error)

    def rest(self) -> None:
        """The exchange is over, and no other begins yet."""
        self.idle_since = self._loop.time()

    def forget(self) -> None:
        """Tell the receiver nothing more."""
        self._receiver = None

    def exceeded(self, now: float) -> str | None:
        """The setting that the exchange is past at ``now``, or None."""
        return self._limits.exceeded(now, self._started, self._heard, self._paused)

    def _lose(self, error: GatewayError) -> None:
        receiver, self._receiver = self._receiver, None
        if receiver is not None:
            receiver.on_lost(error)

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's transports have its methods but not its type
        raw = transport.get_extra_info("socket")
        if raw is not None and raw.family in {socket.AF_INET, socket.AF_INET6}:
            raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def data_received(self, data: bytes) -> None:
        receiver = self._receiver
        if receiver is None:
            self.abort(UpstreamLost("the upstream sent bytes that belong to no answer", answered=True))
            return
        is_first = self._heard == math.inf
        self._heard = self._loop.time()
        if is_first and self._known is not None and self._known_answer(self._known, receiver, data):
            return
        if is_first:
            self._head = Head(0)
        had_head = self._head_complete
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError:
            self.abort(UpstreamLost("the upstream's answer is not HTTP", answered=True))
            return
        if self._head_complete:
            if is_first and self._complete:
                self._known = KnownHead.of(data, self._head) if self._delimited and self._keep_alive else None
            self._tell(receiver, had_head)

    def _known_answer(self, known: KnownHead[Head], receiver: Receiver, data: bytes) -> bool:
        """Tell ``data`` if it is one whole answer under the head that is ``known``, past the parser."""
        body = known.body(data)
        if body is None:
            return False
        self._head_complete = self._complete = self._delimited = self._keep_alive = True
        self._head = known.meaning
        if body:
            self._body.append(body)
        self._tell(receiver, had_head=False)
        return True

    def _tell(self, receiver: Receiver, had_head: bool) -> None:
        if not had_head:
            receiver.on_head(self._head)
        body = self._body
        if body and self._receiver is receiver:
            data = body[0] if len(body) == 1 else b"".join(body)
            body.clear()
            receiver.on_data(data)
        if self._complete and self._receiver is receiver:
            self._receiver = None
            receiver.on_end()

    def connection_lost(self, exc: Exception | None) -> None:
        self.closed = True
        receiver = self._receiver
        if receiver is not None and exc is None and self._head_complete and not self._delimited:
            self._complete, self._receiver = True, None
            receiver.on_end()
        else:
            self._lose(UpstreamLost("the connection broke before the answer was whole", answered=self._heard < math.inf))

    # httptools callbacks

    def on_header(self, name: bytes, value: bytes) -> None:
        name = name.lower()
        if name == b"content-length" or name == b"transfer-encoding":
            self._delimited = True
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

    def on_message_complete(self) -> None:
        if self._head_complete:
            self._complete = True

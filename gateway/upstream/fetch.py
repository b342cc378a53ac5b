"""A whole small answer in one call: readiness, key table, feedback, aborts. Not the hot path."""

import asyncio
from dataclasses import dataclass

from gateway.errors import GatewayError, UpstreamLost, UpstreamTimeout
from gateway.upstream.connection import Connection, Head, Headers
from gateway.upstream.origin import Origin
from gateway.upstream.pool import Pool


@dataclass(slots=True, frozen=True)
class Request:
    """What to ask. ``headers`` must not hold host, content-length or connection."""

    method: str
    path: str
    headers: Headers
    body: bytes = b""

    def encode(self, host: str) -> bytes:
        """The bytes on the wire."""
        lines = [f"{self.method} {self.path} HTTP/1.1\r\nhost: {host}\r\ncontent-length: {len(self.body)}\r\n".encode()]
        lines += [b"%s: %s\r\n" % header for header in self.headers]
        return b"".join((*lines, b"\r\n", self.body))


@dataclass(slots=True, frozen=True)
class Fetched:
    """A whole answer."""

    head: Head
    body: bytes

    @property
    def status(self) -> int:
        """The HTTP status."""
        return self.head.status


class _Collector:
    """A receiver that gathers the whole answer; ``answer`` is done with it."""

    def __init__(self) -> None:
        self.answer: asyncio.Future[Fetched] = asyncio.get_running_loop().create_future()
        self._head = Head(0)
        self._parts: list[bytes] = []

    def on_head(self, head: Head) -> None:
        self._head = head

    def on_data(self, data: bytes) -> None:
        self._parts.append(data)

    def on_end(self) -> None:
        if not self.answer.done():
            self.answer.set_result(Fetched(self._head, b"".join(self._parts)))

    def on_lost(self, error: GatewayError) -> None:
        if not self.answer.done():
            self.answer.set_exception(error)


async def fetch(pool: Pool, origin: Origin, request: Request, timeout_s: float, *, repeatable: bool = True) -> Fetched:
    """The answer to ``request``. A kept connection that turns out closed is replaced, so ``request`` may be sent twice.

    What must not be sent twice is not ``repeatable`` and goes over a new connection, which nobody would take again: it is dropped.

    Raises:
        UpstreamError: unreachable, lost, or longer than ``timeout_s``.
    """
    try:
        async with asyncio.timeout(timeout_s):
            reused = pool.take_idle(origin) if repeatable else None
            if reused is not None:
                try:
                    return await _exchange(pool, reused, origin, request)
                except UpstreamLost as error:
                    if error.answered:
                        raise
            return await _exchange(pool, await pool.connect(origin), origin, request, keep=repeatable)
    except TimeoutError as error:
        raise UpstreamTimeout(f"{timeout_s} s for {request.method} {request.path}") from error


async def _exchange(pool: Pool, connection: Connection, origin: Origin, request: Request, *, keep: bool = True) -> Fetched:
    collector = _Collector()
    try:
        connection.start(request.encode(origin.host), collector)
        return await collector.answer
    finally:
        connection.forget()
        pool.release(connection, origin, keep=keep)

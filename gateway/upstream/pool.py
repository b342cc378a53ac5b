"""Keep-alive connections by origin. One event loop owns it; ``sweep`` must be called every now and then.

TLS verifies the certificate and the name, against the system's authorities or those in the file that ``SSL_CERT_FILE`` names.
Idle connections are dropped before the engine's own keep-alive of 5 s ends, so that few calls meet one that is about to close.
"""

import asyncio
import ssl
from collections import deque
from functools import cached_property

from gateway.errors import UpstreamLost, UpstreamTimeout, UpstreamUnreachable
from gateway.upstream.connection import Connection
from gateway.upstream.origin import Origin

KEEP_IDLE_S = 4.0


class Pool:
    """Hands out connections and takes them back."""

    def __init__(self, connect_timeout_s: float) -> None:
        self._connect_timeout_s = connect_timeout_s
        self._idle: dict[Origin, deque[Connection]] = {}
        self._active: set[Connection] = set()

    @cached_property
    def _tls(self) -> ssl.SSLContext:
        return ssl.create_default_context()

    @property
    def num_active(self) -> int:
        """Connections with an exchange on them."""
        return len(self._active)

    def take_idle(self, origin: Origin) -> Connection | None:
        """The connection used last, or None. What it carries may be lost to a close that is already on its way."""
        idle = self._idle.get(origin)
        while idle:
            connection = idle.pop()
            if not connection.closed:
                self._active.add(connection)
                return connection
        return None

    async def connect(self, origin: Origin) -> Connection:
        """A new connection.

        Raises:
            UpstreamUnreachable: refused, not made within the connect time-out, or not who its certificate should say.
        """
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(self._connect_timeout_s):
                if origin.socket is not None:
                    _, connection = await loop.create_unix_connection(Connection, str(origin.socket))
                elif origin.certified:
                    where = (origin.address, origin.port)
                    _, connection = await loop.create_connection(
                        Connection, *where, ssl=self._tls, server_hostname=origin.certified
                    )
                else:
                    _, connection = await loop.create_connection(Connection, origin.address, origin.port)
        except ssl.SSLError as error:
            raise UpstreamUnreachable(f"no connection to {origin.host}: {error}") from error
        except OSError as error:  # TimeoutError is one
            raise UpstreamUnreachable(f"no connection to {origin.socket or origin.host}") from error
        self._active.add(connection)
        return connection

    def release(self, connection: Connection, origin: Origin, *, keep: bool = True) -> None:
        """Take ``connection`` back: kept if its exchange ended cleanly and somebody may want it again, else dropped."""
        self._active.discard(connection)
        if not (keep and connection.reusable):
            connection.forget()
            connection.abort(UpstreamLost("released before its answer was whole", answered=True))
            return
        connection.rest()
        idle = self._idle.get(origin)
        if idle is None:
            idle = self._idle[origin] = deque()
        idle.append(connection)

    def sweep(self) -> None:
        """Abort exchanges that are past a limit, and drop connections that have idled too long."""
        now = asyncio.get_running_loop().time()
        for connection in list(self._active):
            if limit := connection.exceeded(now):
                connection.abort(UpstreamTimeout(limit))
        for idle in self._idle.values():
            while idle and (idle[0].closed or now - idle[0].idle_since > KEEP_IDLE_S):
                idle.popleft().abort(UpstreamLost("idle", answered=False))

    def close(self) -> None:
        """Drop every connection."""
        for connection in [*self._active, *(one for idle in self._idle.values() for one in idle)]:
            connection.abort(UpstreamLost("the gateway is closing", answered=True))
        self._idle.clear()

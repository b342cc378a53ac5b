"""One call's way to an engine: which connection it runs on, when it may be tried again, and how it is given up.

A connection that breaks before any byte of the answer may be tried anew; a byte later it never is.
"""

import asyncio
import logging

import msgspec

from gateway.call import Call, now_us
from gateway.errors import ClientLeft, UpstreamError, UpstreamLost, UpstreamUnreachable
from gateway.headers import engine_request
from gateway.state import Gateway
from gateway.upstream.connection import Connection, Head
from gateway.upstream.fetch import Request, fetch
from gateway.upstream.limits import Limits
from router.workers import Health, Worker

log = logging.getLogger(__name__)


class EngineExchange:
    """Owns at most one connection at a time. ``worker`` is the last one tried; ``complete`` says that its answer came whole."""

    def __init__(self, gateway: Gateway, call: Call) -> None:
        self._gateway = gateway
        self._call = call
        self._connection: Connection | None = None
        self._left = False
        self.worker: Worker | None = None
        self.complete = False

    async def open(self, worker: Worker) -> Head | None:
        """Ask ``worker``; its status and headers, or None where it never began to answer and another may be asked.

        Raises:
            UpstreamError: it began to answer and failed, or took too long. ClientLeft: the agent went away.
        """
        self.worker = worker
        origin = self._gateway.origins[worker.url]
        self._connection = self._gateway.pool.take_idle(origin)
        while True:
            reused = self._connection is not None
            try:
                if self._connection is None:
                    self._connection = await self._gateway.pool.connect(origin)
                return await self._ask(self._connection, origin.host)
            except UpstreamUnreachable:
                worker.health = Health.DOWN
                self._count_failure(worker)
                return None
            except UpstreamLost as error:
                if error.answered:
                    raise
                self.release()
                if not reused:
                    self._count_failure(worker)
                    return None

    async def _ask(self, connection: Connection, host: str) -> Head:
        if self._left:
            raise ClientLeft
        settings = self._gateway.settings
        limits = Limits.starting(
            asyncio.get_running_loop().time(), settings.first_byte_timeout_s, settings.idle_timeout_s, settings.total_timeout_s
        )
        connection.start(engine_request(self._call, host), limits)
        head = await connection.head()
        self._call.first_byte_us = now_us()
        return head

    async def read(self) -> bytes:
        """The next bytes of the answer, empty at its clean end. Raises as ``Connection.read`` does."""
        assert self._connection is not None
        data = await self._connection.read()
        self.complete = not data
        return data

    def agent_left(self) -> None:
        """Close the engine's connection at once; whoever waits on it gets ClientLeft."""
        self._left = True
        if self._connection is not None:
            self._connection.abort(ClientLeft())

    def release(self) -> None:
        """Give the connection back, or drop it where its answer is not whole."""
        if self._connection is not None and self.worker is not None:
            self._gateway.pool.release(self._connection, self._gateway.origins[self.worker.url])
            self._connection = None

    async def abort(self) -> None:
        """Stop what may still run: closing the connection alone does not end a call that is not streamed."""
        if self.worker is None or self.complete or not self._call.completion_id:
            return
        self.release()
        body = msgspec.json.encode({"rid": self._call.completion_id})
        request = Request("POST", "/abort_request", [(b"content-type", b"application/json")], body)
        gateway = self._gateway
        try:
            await fetch(gateway.pool, gateway.origins[self.worker.url], request, gateway.settings.control_timeout_s)
        except UpstreamError as error:
            log.warning("abort failed event=%s worker=%s: %s", self._call.event_id, self.worker.url, error)

    def _count_failure(self, worker: Worker) -> None:
        self._gateway.metrics.add("headrace_gateway_upstream_failures_total", "worker", worker.url)
        log.warning("worker did not answer event=%s worker=%s", self._call.event_id, worker.url)

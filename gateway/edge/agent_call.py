"""One hot request on an agent's connection, from its head to the end of its answer.

Reads the body, asks ``admit`` and the fair queue, hands over to the relay, and writes what the relay gives. Everything happens
as bytes arrive and without a task, but for the two waits that are rare: for the first key table, and for a place at the workers.
"""

import asyncio
from collections.abc import Coroutine
from enum import Enum, auto
from typing import TYPE_CHECKING, Final

from atdp.ids import new_event_id
from gateway.admission import Ticket
from gateway.answers import error_headers
from gateway.call import Call
from gateway.dialects import Dialect
from gateway.edge.admit import admit, place
from gateway.edge.body import Body
from gateway.edge.heads import CONTINUE, LAST_CHUNK, encode_chunk, encode_head
from gateway.errors import Refused
from gateway.headers import agent_headers, credential_in
from gateway.keys import Identity
from gateway.relay import Relay
from gateway.upstream.connection import Headers

if TYPE_CHECKING:
    from gateway.edge.protocol import AgentConnection

_DISCARD_BYTES = 64 << 20
_CLOSING = frozenset((408, 413, 415))
"""Refusals of a body that is still on its way: the connection cannot go on after them."""


class State(Enum):
    """Where a call stands. WAITING is for the key table or for a place; DISCARDING drops a refused body before the close."""

    PARSED = auto()
    READING = auto()
    WAITING = auto()
    RELAYED = auto()
    DISCARDING = auto()
    OVER = auto()


class _Deaf:
    def set(self) -> None:
        """Nobody waits for it."""


class AgentCall:
    """See the module. uvicorn keeps it in the place of its own cycles, and reads the first four attributes."""

    __slots__ = (
        *("complete", "disconnected", "headers", "keep_alive", "response_complete"),
        *("_body", "_connection", "_dialect", "_early", "_event_id", "_expects", "_framed", "_gateway", "_identity", "_left"),
        *("_own", "_relay", "_session", "_state", "_status", "_task", "_ticket"),
    )
    message_event: Final = _Deaf()

    def __init__(
        self, connection: "AgentConnection", dialect: Dialect, session: str, headers: Headers, keep_alive: bool, framed: bool
    ) -> None:
        self.response_complete = self.disconnected = self.complete = False
        self.keep_alive = keep_alive
        self.headers = headers
        self._connection = connection
        self._gateway = connection.gateway
        self._dialect = dialect
        self._session = session
        self._framed = framed
        self._event_id = ""
        self._own = b""
        self._expects = False
        self._early: list[bytes] = []
        self._left = _DISCARD_BYTES
        self._status = 0
        self._state = State.PARSED
        self._body: Body | None = None
        self._identity: Identity | None = None
        self._relay: Relay | None = None
        self._task: asyncio.Task[None] | None = None
        self._ticket: Ticket | None = None

    # reading

    def proceed(self) -> None:
        """What came has been parsed, and it is this call's turn."""
        if self._state is State.PARSED:
            self._begin()
        if self.complete:
            if self._state is State.READING:
                self._serve()
            elif self._state is State.DISCARDING:
                self._over(self._status)

    def on_body(self, data: bytes) -> None:
        """A part of the body, inside the parser."""
        if self._state is State.PARSED:
            self._early.append(data)
        elif self._state is State.READING:
            self._add(data)
        elif self._state is State.DISCARDING:
            self._left -= len(data)
            if self._left < 0:
                self._over(self._status)

    def _begin(self) -> None:
        """Check what can be checked without the body."""
        gateway, fields = self._gateway, dict(self.headers)
        self._event_id = new_event_id()
        self._own = b"x-headrace-event: %b\r\n" % self._event_id.encode()
        self._expects = fields.get(b"expect", b"").lower() == b"100-continue"
        self._state = State.READING
        try:
            if gateway.keys.loaded:
                self._identity = gateway.keys.known_caller(credential_in(fields))
            length, encoding = fields.get(b"content-length", b""), fields.get(b"content-encoding", b"")
            self._body = Body(length, encoding, gateway.settings.max_body_bytes)
        except Refused as refused:
            self._refuse(refused)
            return
        early, self._early = self._early, []
        for data in early:
            self.on_body(data)
        if not self.complete and self._state is State.READING:
            if self._expects:
                self._connection.transport.write(CONTINUE)
            self._connection.expect_within(gateway.settings.body_timeout_s)

    def _add(self, data: bytes) -> None:
        assert self._body is not None
        try:
            self._body.add(data)
        except Refused as refused:
            self._refuse(refused)
        else:
            self._connection.expect_within(self._gateway.settings.body_timeout_s)

    def _serve(self) -> None:
        """The body is whole: admit the call and let the relay have it."""
        self._connection.expect_nothing()
        if self._identity is None:
            self._wait(self._admit_later())
            return
        try:
            self._admit(self._identity)
        except Refused as refused:
            self._refuse(refused)

    async def _admit_later(self) -> None:
        """Wait for the first key table."""
        keys = self._gateway.keys
        await keys.wait()
        self._admit(keys.known_caller(credential_in(dict(self.headers))))

    def _admit(self, identity: Identity) -> None:
        assert self._body is not None
        gateway = self._gateway
        body = self._body.whole()
        self._body = None
        call = admit(gateway, identity, self._event_id, self._dialect, self._session, self.headers, body)
        if self._dialect.generates:
            self._ticket = gateway.admission.try_enter(identity, len(body), call.request.model)
            if self._ticket is None:
                self._wait(self._enter(call))
                return
        self._start(call)

    async def _enter(self, call: Call) -> None:
        """Wait in the fair queue."""
        self._ticket = await self._gateway.admission.enter(call.identity, len(call.request.body), call.request.model)
        self._start(call)

    def _start(self, call: Call) -> None:
        try:
            place(self._gateway, call)
            self._event_id = call.event_id
            self._relay = relay = Relay(self._gateway, call, self, self._ticket)
            self._own = own_headers(call, self._ticket)
            self._state = State.RELAYED
            relay.start()
        except Refused:
            self._relay = None
            if self._ticket is not None:
                self._gateway.admission.leave(self._ticket, 0)
            raise

    def _wait(self, step: Coroutine[None, None, None]) -> None:
        self._state = State.WAITING
        self._task = task = asyncio.get_running_loop().create_task(self._waited(step))
        self._gateway.waiting.add(task)
        task.add_done_callback(self._gateway.waiting.discard)

    async def _waited(self, step: Coroutine[None, None, None]) -> None:
        try:
            await step
        except Refused as refused:
            self._refuse(refused)

    # what the connection tells

    def agent_left(self) -> None:
        """The agent's connection is gone."""
        if self._relay is not None:
            self._relay.agent_left()
        elif self._state is not State.OVER:
            if self._task is not None:
                self._task.cancel()
            self._over(499)

    def paused(self) -> None:
        """The agent reads too slowly."""
        if self._relay is not None:
            self._relay.pause()

    def resumed(self) -> None:
        """The agent has caught up."""
        if self._relay is not None:
            self._relay.resume()

    def overdue(self) -> None:
        """What was expected did not come in time: the rest of the body, or of a body that is dropped."""
        if self._state is State.READING:
            self._refuse(Refused(408, "body_timeout", "the request body did not arrive in time; send it again"))
        elif self._state is State.DISCARDING:
            self._over(self._status)

    # writing

    def _refuse(self, refused: Refused) -> None:
        """Answer ``refused`` at once. A body that is refused for itself is then dropped, up to 64 MiB or a few seconds.

        A close with unread bytes would reset the connection before the client has read the answer. A client that waits for
        ``100 Continue`` sends nothing, so there is nothing to drop.
        """
        self._gateway.metrics.add("headrace_gateway_refused_total", "code", refused.code)
        closing = refused.status in _CLOSING
        self.keep_alive = self.keep_alive and not closing and not (self._expects and not self.complete)
        self.write_error(refused)
        if closing and not self.complete and not self._expects:
            self._state, self._status = State.DISCARDING, refused.status
            self._connection.expect_within(self._gateway.settings.control_timeout_s)
        else:
            self._over(refused.status)

    def write_error(self, refused: Refused) -> None:
        """``refused`` as a whole answer; the caller ends the call."""
        body = self._dialect.form.body(refused, self._event_id)
        self._write_head(refused.status, error_headers(refused), len(body), body)

    def start_stream(self, status: int, headers: Headers) -> None:
        """Status and the engine's headers of an answer that comes in pieces."""
        self._write_head(status, agent_headers(headers), None, b"")

    def chunk(self, data: bytes) -> None:
        """A piece of it, at least one byte."""
        if not self.disconnected:
            self._connection.transport.write(encode_chunk(data) if self._framed else data)

    def end_stream(self, status: int, data: bytes) -> None:
        """The last piece, which may be empty, and the clean end."""
        if not self.disconnected:
            if self._framed:
                data = encode_chunk(data) + LAST_CHUNK if data else LAST_CHUNK
            self._connection.transport.write(data)
        self._over(status)

    def answer(self, status: int, headers: Headers, body: bytes) -> None:
        """A whole answer in one write, under the engine's headers."""
        self._write_head(status, agent_headers(headers), len(body), body)
        self._over(status)

    def fail(self, refused: Refused) -> None:
        """A whole answer that says what failed; the call has been recorded."""
        self.write_error(refused)
        self._over(refused.status)

    def cut(self, status: int, event: bytes) -> None:
        """End a stream that has begun without its end: no client takes it for whole."""
        if event:
            self.chunk(event)
        self.keep_alive = False
        self._over(status)

    def _write_head(self, status: int, headers: Headers, length: int | None, body: bytes) -> None:
        if not self.disconnected:
            connection = self._connection
            headers = connection.server_headers + headers
            head = encode_head(status, headers, self._own, length, framed=self._framed, close=not self.keep_alive)
            connection.transport.write(head + body)

    def _over(self, status: int) -> None:
        self._state = State.OVER
        self._relay = self._task = None
        self.response_complete = True
        self._gateway.metrics.add("headrace_gateway_calls_total", "status", str(status))
        self._connection.call_over(self)


def own_headers(call: Call, ticket: Ticket | None) -> bytes:
    """The lines that every answer to ``call`` carries."""
    lines = b"x-headrace-event: %b\r\nx-headrace-session: %b\r\n" % (call.event_id.encode(), call.session.session_id.encode())
    if ticket is not None and ticket.meters:
        lines += b"".join(b"%b: %b\r\n" % header for header in ticket.headers())
    return lines

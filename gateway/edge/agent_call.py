"""One hot request on an agent's connection, from its head to the end of its answer.

Reads the body, asks ``admit`` and the fair queue, hands over to the relay, and writes what the relay gives. Everything happens
as bytes arrive and without a task, but for the two waits that are rare: for the first key table, and for a place at the workers.

One class for all of it: reading, waiting and writing change the same few facts, and a second object would be made for every call.
"""

import asyncio
import math
from collections.abc import Coroutine, Sequence
from typing import TYPE_CHECKING, Final, Literal

from atdp.ids import new_event_id
from dataproxy.pseudonym_types import Form
from gateway.admission import Ticket
from gateway.answers import error_headers
from gateway.call import Call
from gateway.edge.admit import admit, place
from gateway.edge.body import MAX_PAUSES, Body, too_large
from gateway.edge.facts import Facts
from gateway.edge.heads import CONTINUE, LAST_CHUNK, agent_lines, encode_answer, encode_chunk, encode_lines, own_lines
from gateway.errors import Refused
from gateway.keys import Identity
from gateway.pseudonyms.agent import RestoringAgent
from gateway.pseudonyms.ask import pseudonymize
from gateway.relay import Relay
from gateway.upstream.connection import Head

if TYPE_CHECKING:
    from gateway.edge.protocol import AgentConnection

_DISCARD_BYTES = 64 << 20
_CLOSING = frozenset((408, 413, 415))
"""Refusals of a body that is still on its way: the connection cannot go on after them."""


State = Literal["parsed", "reading", "waiting", "relayed", "discarding", "over"]
"""Where a call stands. Waiting is for the key table or for a place; discarding drops a refused body before the close. No Enum: its
members take five times as long to look up.
"""


class _Deaf:
    def set(self) -> None:
        """Nobody waits for it."""


class AgentCall:
    """See the module. uvicorn keeps it in the place of its own cycles, and reads the first three attributes and ``keep_alive``."""

    message_event: Final = _Deaf()
    response_complete = False
    disconnected = False
    complete = False
    """Whether the whole request has been parsed."""
    _state: State = "parsed"
    _status = 0
    _left = _DISCARD_BYTES
    _body_due = math.inf
    """When the whole body must be here: who sends a byte now and then does not hold it open for ever."""
    _body: Body | None = None
    _identity: Identity | None = None
    _relay: Relay | None = None
    _task: asyncio.Task[None] | None = None
    _ticket: Ticket | None = None
    _own = b""
    _early: tuple[bytes, ...] = ()
    _forms: Sequence[Form] = ()

    def __init__(self, connection: "AgentConnection", facts: Facts) -> None:
        self.facts = facts
        self.keep_alive = facts.keep_alive
        self._connection = connection
        self._gateway = connection.gateway
        self._event_id = new_event_id()

    # reading

    def proceed(self) -> None:
        """What came has been parsed, and it is this call's turn."""
        if self._state == "parsed":
            self._begin()
        if self.complete:
            if self._state == "reading" and self._body is not None:
                self._connection.expect_nothing()
                try:
                    self._serve(self._body.whole())
                except Refused as refused:
                    self._refuse(refused)
            elif self._state == "discarding":
                self._over(self._status)

    def on_body(self, data: bytes) -> None:
        """A part of the body, inside the parser."""
        if self._state == "parsed":
            self._early = (*self._early, data)
        elif self._state == "reading":
            self._add(data)
        elif self._state == "discarding":
            self._left -= len(data)
            if self._left < 0:
                self._over(self._status)

    def whole(self, body: bytes) -> None:
        """The whole request is here, and nothing of it is rare."""
        self.complete = True
        self._state = "reading"
        try:
            if len(body) > self._gateway.settings.max_body_bytes:
                raise too_large(self._gateway.settings.max_body_bytes)
            if self._gateway.keys.loaded:
                self._identity = self.facts.caller(self._gateway.keys)
            self._serve(body)
        except Refused as refused:
            self._refuse(refused)

    def _begin(self) -> None:
        """Check what can be checked without the body."""
        gateway, facts = self._gateway, self.facts
        self._state = "reading"
        try:
            if gateway.keys.loaded:
                self._identity = facts.caller(gateway.keys)
            self._body = Body(facts.length, facts.encoding, gateway.settings.max_body_bytes)
        except Refused as refused:
            self._refuse(refused)
            return
        early, self._early = self._early, ()
        for data in early:
            self.on_body(data)
        if not self.complete and self._state == "reading":
            if facts.expects:
                self._connection.transport.write(CONTINUE)
            pause_s = gateway.settings.body_timeout_s
            self._body_due = self._connection.expect_within(pause_s) + MAX_PAUSES * pause_s

    def _add(self, data: bytes) -> None:
        assert self._body is not None
        try:
            self._body.add(data)
        except Refused as refused:
            self._refuse(refused)
        else:
            self._connection.expect_within(self._gateway.settings.body_timeout_s, self._body_due)

    # serving

    def _serve(self, body: bytes) -> None:
        """Admit the call and let the relay have it."""
        self._body = None
        if self._identity is None:
            self._wait(self._admit_later(body))
        else:
            self._admit(self._identity, body)

    async def _admit_later(self, body: bytes) -> None:
        """Wait for the first key table."""
        await self._gateway.keys.wait()
        self._admit(self.facts.caller(self._gateway.keys), body)

    def _admit(self, identity: Identity, body: bytes) -> None:
        gateway, facts = self._gateway, self.facts
        call = admit(gateway, identity, self._event_id, facts, body)
        if identity.pseudonymize:
            self._wait(self._pseudonymize(call))
        else:
            self._queue(call)

    async def _pseudonymize(self, call: Call) -> None:
        """Put surrogates into the request before anything else sees it."""
        self._forms = await pseudonymize(self._gateway, call)
        self._queue(call)

    def _queue(self, call: Call) -> None:
        gateway, facts = self._gateway, self.facts
        if facts.dialect.generates:
            self._ticket = gateway.admission.try_enter(call.identity, len(call.request.body), call.request.model)
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
            agent = RestoringAgent(self, call.dialect, self._forms) if self._forms else self
            self._relay = relay = Relay(self._gateway, call, agent, self._ticket)
            self._own = own_lines(call, self._ticket)
            self._state = "relayed"
            relay.start()
        except Refused:
            self._relay = None
            if self._ticket is not None:
                self._gateway.admission.leave(self._ticket, 0)
            raise

    def _wait(self, step: Coroutine[None, None, None]) -> None:
        self._state = "waiting"
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
        elif self._state != "over":
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
        if self._state == "reading":
            self._refuse(Refused(408, "body_timeout", "the request body did not arrive in time; send it again"))
        elif self._state == "discarding":
            self._over(self._status)

    # writing

    def _refuse(self, refused: Refused) -> None:
        """Answer ``refused`` at once. A body that is refused for itself is then dropped, up to 64 MiB or a few seconds.

        A close with unread bytes would reset the connection before the client has read the answer. A client that waits for
        ``100 Continue`` sends nothing, so there is nothing to drop.
        """
        self._gateway.metrics.add("headrace_gateway_refused_total", "code", refused.code)
        closing = refused.status in _CLOSING
        self.keep_alive = self.keep_alive and not closing and not (self.facts.expects and not self.complete)
        self.write_error(refused)
        if closing and not self.complete and not self.facts.expects:
            self._state, self._status = "discarding", refused.status
            self._connection.expect_within(self._gateway.settings.control_timeout_s)
        else:
            self._over(refused.status)

    def write_error(self, refused: Refused) -> None:
        """``refused`` as a whole answer; the caller ends the call."""
        body = self.facts.dialect.form.body(refused, self._event_id)
        self._own = self._own or b"x-headrace-event: %b\r\n" % self._event_id.encode()
        self._write_head(refused.status, encode_lines(error_headers(refused)), len(body), body)

    def start_stream(self, head: Head) -> None:
        """Status and the engine's headers of an answer that comes in pieces."""
        self._write_head(head.status, agent_lines(head), None, b"")

    def chunk(self, data: bytes) -> None:
        """A piece of it, at least one byte."""
        if not self.disconnected:
            self._connection.transport.write(encode_chunk(data) if self.facts.framed else data)

    def end_stream(self, status: int, data: bytes) -> None:
        """The last piece, which may be empty, and the clean end."""
        if not self.disconnected:
            if self.facts.framed:
                data = encode_chunk(data) + LAST_CHUNK if data else LAST_CHUNK
            self._connection.transport.write(data)
        self._over(status)

    def answer(self, head: Head, body: bytes) -> None:
        """A whole answer in one write, under the engine's headers."""
        self._write_head(head.status, agent_lines(head), len(body), body)
        self._over(head.status)

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

    def _write_head(self, status: int, lines: bytes, length: int | None, body: bytes) -> None:
        if not self.disconnected:
            connection = self._connection
            lines = b"".join((connection.server_lines, lines, self._own))
            connection.transport.write(encode_answer(status, lines, length, body, self.facts.framed, not self.keep_alive))

    def _over(self, status: int) -> None:
        self._state = "over"
        self._relay = self._task = None
        self.response_complete = True
        self._gateway.metrics.count_call(status)
        self._connection.call_over(self)

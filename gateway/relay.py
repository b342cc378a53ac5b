"""Relays one call: asks a worker, passes the engine's bytes on as they come, and ends the exchange in the journal.

A state machine that the upstream connection, the agent's connection and the journal drive by callbacks; see ``Phase``. A stream's
end, from the engine's record on, and a JSON answer as a whole are held until the exchange is durable. Whatever goes wrong after
the first byte ends in an error event and a cut, never in a clean end. A connection that breaks before any byte of the answer may
be tried anew; a byte later it never is.
"""

import asyncio
import logging
from typing import Literal

from dataproxy.capture.records import Delivery
from dataproxy.capture.usage import num_tokens
from gateway.admission import Ticket
from gateway.agent import Agent
from gateway.call import Call, now_us
from gateway.errors import GatewayError, Refused, UpstreamLost, UpstreamTimeout, UpstreamUnreachable
from gateway.exchange import Exchange, Then
from gateway.headers import engine_request, retry_after_s
from gateway.placement import note_moved
from gateway.record import StreamSplitter, split_json
from gateway.state import Gateway
from gateway.stop import stop_generation
from gateway.upstream.connection import Connection, Head
from router.workers import Worker

log = logging.getLogger(__name__)


Phase = Literal["asking", "passing", "held", "ending", "over"]
"""asking: no byte of an answer yet. passing: it comes. held: it is whole and waits for the journal. ending: it failed, and waits
for the journal. over: the agent has been told. No Enum: its members take five times as long to look up.
"""


class Relay:
    """One call from its admission to its end. ``ticket`` is its place at the workers, given back at the end."""

    _phase: Phase = "asking"
    _worker: Worker | None = None
    _asked = ""
    """The URL of the last worker that was asked; ``_worker`` is the one that has the call now."""
    _lane = "stable"
    """The lane that it was in."""
    _status = 0
    _connection: Connection | None = None
    _reused = False
    _head = Head(0)
    _splitter: StreamSplitter | None = None
    _body = b""
    _parts: list[bytes] | None = None
    """A whole answer's body once it has come in more than one read."""
    _delivery: Delivery = "complete"
    _rest = b""
    _stopped: asyncio.Future[None] | None = None
    _num_tokens: int | None = 0

    def __init__(self, gateway: Gateway, call: Call, agent: Agent, ticket: Ticket | None) -> None:
        self._gateway = gateway
        self._call = call
        self._agent = agent
        self._ticket = ticket
        self._exchange = Exchange(call, gateway.journal, gateway.gaps) if call.recorded else None
        self._untried = iter(call.workers)

    def start(self) -> None:
        """Begin to record, and ask the first worker.

        Raises:
            Refused: the journal does not take the call; nothing was sent.
        """
        if self._exchange is not None and not self._exchange.begin():
            self._exchange = None
        self._gateway.running.add(self)
        self._ask_next()

    # asking

    def _ask_next(self) -> None:
        """Ask the next worker, or give up."""
        self._worker = worker = next(self._untried, None)
        if worker is None:
            refused = Refused(503, "no_worker", "no inference worker answers right now; try again shortly", retry_after_s=2)
            self._fail("upstream_error", refused, refused.code)
            return
        self._asked, self._lane = worker.url, worker.lane
        worker.num_in_flight += 1
        connection = self._gateway.pool.take_idle(self._gateway.origins[worker.url])
        if connection is not None:
            self._ask(worker, connection, reused=True)
        else:
            self._gateway.spawn(self._connect(worker))

    async def _connect(self, worker: Worker) -> None:
        try:
            connection = await self._gateway.pool.connect(self._gateway.origins[worker.url])
        except UpstreamUnreachable:
            if self._phase == "asking":
                worker.unreachable()
                self._next_after_failure(worker)
            return
        if self._phase == "asking":
            self._ask(worker, connection, reused=False)
        else:
            self._gateway.pool.release(connection, self._gateway.origins[worker.url])

    def _ask(self, worker: Worker, connection: Connection, *, reused: bool) -> None:
        self._connection, self._reused, self._num_tokens = connection, reused, None
        request = engine_request(self._call, self._gateway.origins[worker.url].host)
        connection.start(request, self, self._gateway.limits)

    def _next_after_failure(self, worker: Worker) -> None:
        self._gateway.metrics.add("headrace_gateway_upstream_failures_total", "worker", worker.url)
        log.warning("worker did not answer event=%s worker=%s", self._call.event_id, worker.url)
        self._leave_worker()
        self._ask_next()

    # the engine's answer (Receiver)

    def on_head(self, head: Head) -> None:
        call = self._call
        call.first_byte_us = now_us()
        self._gateway.metrics.count_first_byte(call.first_byte_us - call.started_us)
        self._phase, self._head, self._status = "passing", head, head.status
        if self._worker is not None:
            self._worker.answered(head.status, retry_after_s(head.headers) if head.status >= 400 else None)
        if call.dialect.keeps_answers and self._worker is not None:
            note_moved(self._gateway, call.event_id, self._worker.url)
        if head.is_stream is None:
            head.is_stream = head.get(b"content-type").startswith(b"text/event-stream")
        if head.is_stream:
            self._splitter = StreamSplitter(call.dialect.held_from)
            self._agent.start_stream(head)

    def on_data(self, data: bytes) -> None:
        if self._splitter is not None:
            if passed := self._splitter.feed(data):
                if self._exchange is not None:
                    self._exchange.sent(passed)
                self._agent.chunk(passed)
        elif self._parts is not None:
            self._parts.append(data)
        elif self._body:
            self._parts = [self._body, data]
        else:
            self._body = data

    def on_end(self) -> None:
        self._let_go()
        self._leave_worker()
        self._phase = "held"
        if self._splitter is not None:
            self._rest, record = self._splitter.finish()
        else:
            body = self._body if self._parts is None else b"".join(self._parts)
            self._rest, record = split_json(body) if self._call.wants_record else (body, b"")
        self._delivery = "complete" if self._head.status < 400 else "engine_error"
        if self._ticket is not None and self._ticket.counts_tokens:
            self._num_tokens = num_tokens(record) if self._delivery == "complete" else 0
        if self._exchange is None:
            self._durable(None)
        else:
            self._finish(self._exchange, record, "", self._durable)

    def _finish(self, exchange: Exchange, record: bytes, error: str, then: Then) -> None:
        exchange.finish(
            status=self._status,
            stream=self._splitter is not None,
            delivery=self._delivery,
            worker=self._asked,
            lane=self._lane,
            rest=self._rest,
            record=record,
            error=error,
            then=then,
        )

    def on_lost(self, error: GatewayError) -> None:
        self._let_go()
        if self._worker is not None and not (self._reused and isinstance(error, UpstreamLost) and not error.answered):
            self._worker.failed()
        if isinstance(error, UpstreamTimeout):
            text = f"{error}; ask for less, or raise the gateway's {error.limit}"
            self._fail("aborted", Refused(504, "engine_timeout", text), str(error))
        elif not isinstance(error, UpstreamLost) or error.answered or self._worker is None:
            text = "the engine broke off before its answer was whole; call again"
            self._fail("upstream_error", Refused(502, "engine_lost", text, retry_after_s=1), str(error))
        elif self._reused:  # it was about to close when we took it
            self._gateway.spawn(self._connect(self._worker))
        else:
            self._next_after_failure(self._worker)

    # the end

    def _durable(self, refused: Refused | None) -> None:
        if refused is not None:
            self._delivery = "upstream_error"
            self._tell_failed(refused)
        elif self._splitter is not None:
            self._agent.end_stream(self._status, self._rest)
        else:
            self._agent.answer(self._head, self._rest)
        self._over()

    def _tell_failed(self, refused: Refused) -> None:
        if self._splitter is None:
            self._agent.fail(refused)
        else:
            self._agent.cut(self._status, self._error_event(self._splitter, refused))

    def _error_event(self, splitter: StreamSplitter, refused: Refused) -> bytes:
        boundary = b"" if splitter.at_boundary else b"\n\n"
        return boundary + self._call.dialect.form.stream_event(refused, self._call.event_id)

    def _fail(self, delivery: Delivery, refused: Refused | None, error: str) -> None:
        """End a call that failed: stop the engine, record what happened, then tell the agent if it is still there."""
        call, worker = self._call, self._worker
        log.warning("call ended event=%s delivery=%s worker=%s: %s", call.event_id, delivery, self._asked, error)
        self._phase, self._delivery = "ending", delivery
        self._let_go()
        self._leave_worker()
        if worker is not None and call.completion_id:
            self._gateway.spawn(stop_generation(self._gateway, worker, call))
        record = self._rest = b""
        if self._splitter is not None:
            record = self._splitter.finish()[1]
            self._rest = b"" if refused is None else self._error_event(self._splitter, refused)
        elif refused is not None:
            self._status = refused.status
            self._rest = call.dialect.form.body(refused, call.event_id)

        def told(_: Refused | None) -> None:  # a journal that fails has been logged; the agent is being told of a failure as it is
            if refused is not None:
                self._tell_failed(refused)
            else:
                self._agent.cut(499, b"")
            self._over()

        if self._exchange is None:
            told(None)
        else:
            self._finish(self._exchange, record, error, told)

    def _over(self) -> None:
        self._phase = "over"
        self._gateway.metrics.count_delivery(self._delivery)
        self._gateway.running.discard(self)
        if self._gateway.spans is not None:
            self._gateway.spans.record(self._call, self._status, self._delivery, self._asked)
        if self._ticket is not None:
            self._gateway.admission.leave(self._ticket, self._num_tokens)
        if self._stopped is not None:
            self._stopped.set_result(None)

    def _let_go(self) -> None:
        """The exchange on the connection is over: give it back, or drop it where the answer is not whole."""
        connection, self._connection = self._connection, None
        if connection is not None and self._worker is not None:
            self._gateway.pool.release(connection, self._gateway.origins[self._worker.url])

    def _leave_worker(self) -> None:
        if self._worker is not None:
            self._worker.num_in_flight -= 1
            self._worker = None

    # what else may happen to it

    def agent_left(self) -> None:
        """The agent's connection is gone: the engine's is closed at once. An answer that is whole is still recorded as such."""
        if self._phase in ("asking", "passing"):
            self._fail("disconnected", None, "the agent disconnected")

    def stop(self) -> "asyncio.Future[None]":
        """The gateway stops: end the call; done once that is recorded."""
        self._stopped = asyncio.get_running_loop().create_future()
        if self._phase in ("asking", "passing"):
            self._fail("aborted", None, "the gateway stopped")
        return self._stopped

    def pause(self) -> None:
        """The agent reads too slowly: so do we."""
        if self._connection is not None:
            self._connection.pause()

    def resume(self) -> None:
        """The agent has caught up."""
        if self._connection is not None:
            self._connection.resume()

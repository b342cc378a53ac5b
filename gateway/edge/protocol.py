"""An agent's connection: uvicorn's HTTP protocol, except that POSTs to hot paths never become ASGI calls.

Rests on uvicorn's internals (pinned and tested, see docs/decisions/0012): the parser callbacks, ``cycle`` and ``pipeline``, in
which an ``AgentCall`` takes a cycle's place, and ``flow``. Framing, chunked bodies and pipelining stay uvicorn's and httptools'.
"""

import asyncio
import math
from typing import Any

import httptools
from uvicorn.config import Config
from uvicorn.protocols.http.flow_control import HIGH_WATER_LIMIT
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

from gateway.answers import error_headers
from gateway.dialects.forms import OPENAI
from gateway.edge.agent_call import AgentCall
from gateway.edge.body import MAX_PAUSES
from gateway.edge.facts import Facts
from gateway.edge.heads import encode_answer, encode_lines
from gateway.edge.routes import route
from gateway.edge.upgrade import without_offer
from gateway.errors import Refused
from gateway.known_head import KnownHead
from gateway.state import Gateway
from gateway.upstream.connection import Headers

_MAX_HEAD_BYTES = 64 << 10
"""Of a head, or of trailers, beyond the read that they begin in. The parser has no limit and takes quadratic time."""

_HEAD_BYTES = 1024
"""What a request costs in memory while it waits behind another, its body apart."""


class AgentConnection(HttpToolsProtocol):
    """One connection of an agent. Time limits are checked by ``sweep``: there is no timer per request."""

    def __init__(
        self,
        gateway: Gateway,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self.gateway = gateway
        self._deadline = math.inf
        self._served: AgentCall | None = None
        self._num_ahead = 0
        self._known: KnownHead[Facts] | None = None
        self._server_headers: Headers = []
        self._server_lines = b""
        self._between = True
        """Whether the parser stands between two requests."""
        self._is_further = False
        self._num_fruitless = 0
        """Bytes in a row that neither ended a head nor were of a body."""
        self._is_unread = False
        """Whether a body that goes to ASGI is still on its way: a route that wants none answers and leaves it there."""

    @property
    def server_lines(self) -> bytes:
        """What the server adds to every answer: uvicorn makes it anew each second."""
        headers = self.server_state.default_headers
        if headers is not self._server_headers:
            self._server_headers, self._server_lines = headers, encode_lines(headers)
        return self._server_lines

    def expect_within(self, limit_s: float, latest: float = math.inf) -> float:
        """More bytes of the agent are due within ``limit_s``, and before ``latest`` on the loop's clock; gives the time on it."""
        now = self.loop.time()
        self._deadline = min(now + limit_s, latest)
        return now

    def expect_nothing(self) -> None:
        """It is not the agent's turn."""
        self._deadline = math.inf

    def sweep(self, now: float) -> None:
        """Deal with what is overdue at ``now``."""
        if now < self._deadline:
            return
        self._deadline = math.inf
        if self._served is not None:
            self._served.overdue()
        elif self.transport.is_closing():
            return
        elif self._is_answering():
            if self._is_unread:
                self.expect_within(self.gateway.settings.control_timeout_s)
        elif self._between or self._is_unread:
            self.transport.close()  # kept alive, or answered without what it still sends, long enough
        else:
            self._refuse_slow_head()

    def call_over(self, call: AgentCall) -> None:
        """``call`` has been answered: go on with what was pipelined behind it, or wait for the next."""
        self._served = None
        self._num_ahead = 0
        self._deadline = math.inf
        if not call.keep_alive:
            self.server_state.total_requests += 1
            if not self.transport.is_closing():
                self.transport.close()
        elif self.pipeline or self.transport.is_closing():
            self.on_response_complete()
        else:
            self.server_state.total_requests += 1
            self.flow.resume_reading()
            self._deadline = self.loop.time() + self.timeout_keep_alive

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn has it
        super().connection_made(transport)
        self.gateway.agents.add(self)
        self.expect_within(self.timeout_keep_alive)

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self.gateway.agents.discard(self)
        if self._served is not None:
            self._served.disconnected = True
            self._served.agent_left()

    def data_received(self, data: bytes) -> None:
        is_first = self._between
        if is_first and self._known is not None and self._known_request(self._known, data):
            return
        self._is_further = is_first
        self._unset_keepalive_if_required()
        self._parse(data)
        if self._is_further:
            self._num_fruitless = 0
        else:
            self._num_fruitless += len(data)
            if self._num_fruitless > _MAX_HEAD_BYTES:
                self._refuse_head()
                return
        call = self._served
        if call is not None:  # outside the parser, which takes what is raised inside it for bad input
            if is_first and self.cycle is call:  # type: ignore[comparison-overlap]
                self._known = KnownHead.of(data, call.facts) if call.facts.plain else None
            call.proceed()

    def _parse(self, data: bytes) -> None:
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade as offer:
            method, version = self.parser.get_method(), self.parser.get_http_version()
            if method == b"CONNECT":
                self.send_400_response("This is no proxy: CONNECT is not served.")
                return
            self.parser = httptools.HttpRequestParser(self)
            self._parse(without_offer(method, self.url, version, self.headers) + data[offer.args[0] :])
        except httptools.HttpParserError:
            self.logger.warning("a connection sent what is not HTTP")
            self.send_400_response("Invalid HTTP request received.")

    def _is_answering(self) -> bool:
        """Whether a request is being answered."""
        return self._served is not None or not (self.cycle is None or self.cycle.response_complete)

    def _refuse_slow_head(self) -> None:
        """End the connection: a head has begun and does not end."""
        refused = Refused(408, "head_timeout", "the head of the request did not arrive in time; send it again")
        self.gateway.metrics.add("headrace_gateway_refused_total", "code", refused.code)
        lines, body = self.server_lines + encode_lines(error_headers(refused)), OPENAI.body(refused, "")
        self.transport.write(encode_answer(refused.status, lines, len(body), body, framed=True, close=True))
        self.transport.close()

    def _refuse_head(self) -> None:
        """End the connection: its head, or its trailers, are too long."""
        if not self._is_answering():
            self.send_400_response("The head of the request is too large.")
        else:
            self.transport.abort()

    def _known_request(self, known: KnownHead[Facts], data: bytes) -> bool:
        """Serve ``data`` if it is one whole request under the head that is ``known``, past the parser."""
        if self.cycle is not None and not self.cycle.response_complete:
            return False
        body = known.body(data)
        if body is None:
            return False
        self._unset_keepalive_if_required()
        self._deadline = math.inf
        call = AgentCall(self, known.meaning)
        self.cycle = self._served = call  # type: ignore[assignment]  # it has what uvicorn reads of a cycle
        call.whole(body)
        return True

    def pause_writing(self) -> None:
        super().pause_writing()
        if self._served is not None:
            self._served.paused()

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._served is not None:
            self._served.resumed()

    # httptools callbacks

    def on_message_begin(self) -> None:
        self._between = False
        if self._served is None:
            self.expect_within(self.gateway.settings.body_timeout_s)
        self.url = b""
        self.headers = []

    def on_header(self, name: bytes, value: bytes) -> None:
        self.headers.append((name.lower(), value))

    def on_headers_complete(self) -> None:
        self._is_further = True
        if self.parser.should_upgrade():
            return  # the same head comes again, without the offer
        found = route(self.url) if self.parser.get_method() == b"POST" else None
        if found is None:
            self._to_asgi()
            return
        framed = self.parser.get_http_version() != "1.0"
        call = AgentCall(self, Facts(*found, self.headers, bool(framed and self.parser.should_keep_alive()), framed))
        before = self.cycle
        self.cycle = call  # type: ignore[assignment]  # it has what uvicorn reads of a cycle
        if before is None or before.response_complete:
            self._served = call
        else:
            self.pipeline.appendleft((call, self.app))  # type: ignore[arg-type]
            self._pause_if_far_ahead(_HEAD_BYTES)

    def on_body(self, body: bytes) -> None:
        self._is_further = True
        call = self.cycle
        if isinstance(call, AgentCall):
            call.on_body(body)
            if call is not self._served and not call.response_complete:
                self._pause_if_far_ahead(len(body))
        else:
            super().on_body(body)

    def on_message_complete(self) -> None:
        if self.parser.should_upgrade():
            return
        self._between = self._is_further = True
        call = self.cycle
        if isinstance(call, AgentCall):
            call.complete = True
        else:
            super().on_message_complete()
            self._is_unread = False
            if self._served is None:
                self.expect_nothing()

    def _pause_if_far_ahead(self, num_bytes: int) -> None:
        """Of requests behind the one that is served, a little is read: an end of the connection is only seen by reading."""
        self._num_ahead += num_bytes
        if self._num_ahead > HIGH_WATER_LIMIT:
            self.flow.pause_reading()

    def _to_asgi(self) -> None:
        """Let uvicorn have the request whose head is here."""
        url, headers = self.url, self.headers
        self._deadline = math.inf
        self._is_unread = True
        super().on_message_begin()
        self.url = url
        for name, value in headers:
            super().on_header(name, value)
        super().on_headers_complete()

    def _start_asgi_task(self, cycle: Any, app: Any) -> None:
        if not isinstance(cycle, AgentCall):
            super()._start_asgi_task(cycle, app)
            if self._is_unread:
                self.expect_within(MAX_PAUSES * self.gateway.settings.body_timeout_s)
            return
        self._served = cycle
        cycle.proceed()

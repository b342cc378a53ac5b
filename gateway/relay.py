"""Relays one call: chooses a worker, passes the engine's bytes on as they come, and ends the exchange in the journal.

A stream's end, from the engine's record on, and a JSON answer as a whole are held until the exchange is durable. Whatever goes
wrong after the first byte ends in an error event and a cut, never in a clean end.
"""

import asyncio
import logging

from dataproxy.capture.records import Delivery
from gateway.answers import Receive, Send, send_error, send_whole
from gateway.call import Call
from gateway.engine import EngineExchange
from gateway.errors import ClientLeft, Refused, UpstreamLost, UpstreamTimeout
from gateway.exchange import Exchange
from gateway.headers import agent_headers
from gateway.placement import note_moved
from gateway.record import StreamSplitter, split_json
from gateway.state import Gateway
from gateway.upstream.connection import Head, Headers

log = logging.getLogger(__name__)


class Relay:
    """One call from its admission to its end. ``extra`` are headers of ours on every answer."""

    def __init__(self, gateway: Gateway, call: Call, send: Send, extra: Headers) -> None:
        self._gateway = gateway
        self._call = call
        self._send = send
        self._extra = extra
        self._exchange = Exchange(call, gateway.journal)
        self._engine = EngineExchange(gateway, call)
        self._splitter: StreamSplitter | None = None
        self._form = call.dialect.form

    async def run(self, receive: Receive) -> int:
        """Serve the call; the HTTP status that the agent got, 499 if it left first.

        Raises:
            Refused: the journal does not take the call; nothing was sent.
        """
        self._exchange.begin()
        watcher = asyncio.ensure_future(self._watch(receive))
        try:
            return await self._serve()
        finally:
            watcher.cancel()

    async def _watch(self, receive: Receive) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        self._engine.agent_left()

    async def _serve(self) -> int:
        try:
            return await self._ask_workers()
        except ClientLeft:
            await self._end("disconnected", None, "the agent disconnected")
            return 499
        except UpstreamTimeout as error:
            refused = Refused(504, "engine_timeout", f"{error}; ask for less, or raise the gateway's {error.limit}")
            return await self._end("aborted", refused, str(error))
        except UpstreamLost as error:
            refused = Refused(502, "engine_lost", "the engine broke off before its answer was whole; call again", retry_after_s=1)
            return await self._end("upstream_error", refused, str(error))
        except Refused as refused:
            return await self._end("upstream_error", refused, refused.code)
        except asyncio.CancelledError:
            await self._end("aborted", None, "the gateway stopped")
            raise

    async def _ask_workers(self) -> int:
        for worker in self._call.workers:
            with worker.serving():
                self._exchange.worker = worker.url
                try:
                    head = await self._engine.open(worker)
                    if head is not None:
                        if self._call.dialect.keeps_answers:
                            note_moved(self._gateway, self._call.event_id, worker.url)
                        return await self._pass_on(head)
                finally:
                    self._engine.release()
        raise Refused(503, "no_worker", "no inference worker answers right now; try again shortly", retry_after_s=2)

    async def _pass_on(self, head: Head) -> int:
        call = self._call
        self._gateway.metrics.add("headrace_gateway_first_byte_seconds_sum", amount=(call.first_byte_us - call.started_us) / 1e6)
        self._gateway.metrics.add("headrace_gateway_first_byte_seconds_count")
        self._exchange.status = head.status
        delivery: Delivery = "complete" if head.status < 400 else "engine_error"
        if head.get(b"content-type").startswith(b"text/event-stream"):
            await self._stream(head, delivery)
        else:
            await self._whole(head, delivery)
        self._gateway.metrics.add("headrace_gateway_deliveries_total", "delivery", delivery)
        return head.status

    async def _stream(self, head: Head, delivery: Delivery) -> None:
        self._splitter = splitter = StreamSplitter(self._call.dialect.held_from)
        self._exchange.stream = True
        await self._send(
            {"type": "http.response.start", "status": head.status, "headers": agent_headers(head.headers) + self._extra}
        )
        while data := await self._engine.read():
            if passed := splitter.feed(data):
                self._exchange.sent(passed)
                await self._send({"type": "http.response.body", "body": passed, "more_body": True})
        held, record = splitter.finish()
        await self._exchange.finish(delivery, held, record)
        await self._send({"type": "http.response.body", "body": held, "more_body": False})

    async def _whole(self, head: Head, delivery: Delivery) -> None:
        parts: list[bytes] = []
        while data := await self._engine.read():
            parts.append(data)
        body, record = split_json(b"".join(parts))
        await self._exchange.finish(delivery, body, record)
        await send_whole(self._send, head.status, agent_headers(head.headers) + self._extra, body)

    async def _end(self, delivery: Delivery, refused: Refused | None, error: str) -> int:
        """End a call that failed: stop the engine, record what happened, tell the agent if it is still there."""
        log.warning("call ended event=%s delivery=%s worker=%s: %s", self._call.event_id, delivery, self._exchange.worker, error)
        self._gateway.metrics.add("headrace_gateway_deliveries_total", "delivery", delivery)
        async with asyncio.TaskGroup() as group:
            group.create_task(self._engine.abort())
            if self._splitter is not None:
                return await self._cut(self._splitter, delivery, refused, error)
            if refused is None:
                await self._finish_failed(delivery, b"", b"", error)
                return 499
            self._exchange.status = refused.status
            await self._finish_failed(delivery, self._form.body(refused, self._call.event_id), b"", error)
            await send_error(self._send, refused, self._form, self._call.event_id, self._extra)
            return refused.status

    async def _cut(self, splitter: StreamSplitter, delivery: Delivery, refused: Refused | None, error: str) -> int:
        """End a stream that has begun: an error event, then no end of the chunked body, so that no client takes it for whole."""
        event = (
            b""
            if refused is None
            else (b"" if splitter.at_boundary else b"\n\n") + self._form.stream_event(refused, self._call.event_id)
        )
        await self._finish_failed(delivery, event, splitter.finish()[1], error)
        if event:
            await self._send({"type": "http.response.body", "body": event, "more_body": True})
        return self._exchange.status

    async def _finish_failed(self, delivery: Delivery, rest: bytes, record: bytes, error: str) -> None:
        try:
            await self._exchange.finish(delivery, rest, record, error)
        except Refused:
            return  # already logged; the agent is being told of a failure as it is

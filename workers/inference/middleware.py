"""Puts the record into the engine's HTTP answer, and leaves every other byte as SGLang wrote it.

Owns the reading of our request headers and the place of the record, in every dialect: in a stream one event of its own before
the one that ends the answer (`ENDINGS`), in a JSON body one last top-level field. Pure ASGI: it does not import SGLang, so
the fake engine of the tests uses it too. Not owned: the record's content (`record`), the dialects' own repairs (`dialects`). Place
in the path: step 1, outermost in the engine's HTTP process. A request without our headers passes through untouched.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Final

from workers.inference.openings import Message, Opening, Send, answer, kind_of
from workers.inference.record import Recorder

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

SCOPE_KEY: Final = "headrace.order"
RECORD_HEADER: Final = b"x-headrace-record"
RID_HEADER: Final = b"x-headrace-rid"
CACHE_SALT_HEADER: Final = b"x-headrace-cache-salt"

BAD_VALUE: Final = (TypeError, AttributeError, LookupError, ArithmeticError, ValueError, AssertionError, RecursionError)
"""What Python raises where a value is not of the type or form that the code took for granted."""

EVENT_PREFIX: Final = b"event: headrace.record\ndata: "
JSON_FIELD: Final = b',"headrace_record":'


@dataclass(frozen=True, slots=True)
class Ending:
    """How a dialect's stream says that it is over: bytes that one event begins with, or that one event a choice holds."""

    begins: tuple[bytes, ...] = ()
    holds: bytes = b""

    def count(self, event: bytes) -> int:
        """Of how many choices `event` is the end; all of them where the dialect has one answer."""
        return event.count(self.holds) if self.holds else int(event.startswith(self.begins))


_FINISH_REASON: Final = Ending(holds=b'"finish_reason":"')  # inside a JSON string its quotes would be escaped

ENDINGS: Final = {
    "/v1/chat/completions": _FINISH_REASON,
    "/v1/completions": _FINISH_REASON,
    "/v1/responses": Ending(
        (b"event: response.completed\n", b"event: response.incomplete\n", b"event: response.failed\n"),
    ),
    "/v1/messages": Ending((b"event: message_delta\n", b"event: error\n")),
}
"""The paths whose answers carry a record."""


@dataclass(slots=True)
class Order:
    """What our headers ask of one request, and what became of it.

    `record` collects the answer once the engine runs, whether or not a record was asked for. `refusal` is the engine's reason for
    not taking the request at all. `is_detached`: generation outlives the answer (a background response). `turn`: continuity's
    knowledge of the prompt. `history`: the items that a response goes on from, once they were looked up.
    """

    rid: str | None
    cache_salt: str | None
    wants_record: bool
    generates: bool
    record: Recorder | None = None
    refusal: str | None = None
    is_detached: bool = False
    turn: Any = None
    history: list[Any] | None = None

    @staticmethod
    def of(scope: Scope) -> Order | None:
        """The order in the request's headers, or None where there is no header of ours."""
        ours = {name: value.decode("latin-1") for name, value in scope["headers"] if name.startswith(b"x-headrace-")}
        if not ours:
            return None
        generates = scope["path"] in ENDINGS
        wants_record = generates and ours.get(RECORD_HEADER) == "1" and RID_HEADER in ours
        return Order(ours.get(RID_HEADER), ours.get(CACHE_SALT_HEADER), wants_record, generates)


CURRENT: Final[ContextVar[Order | None]] = ContextVar("headrace_order", default=None)
"""The order of the request that this task or thread works for."""


def repairing() -> Order | None:
    """The current order where it names the answer: only such a request gets more than stock SGLang."""
    order = CURRENT.get()
    return order if order is not None and order.rid is not None else None


class RecordMiddleware:
    """ASGI middleware; `forget` is called with the order when its request is over, however it ended.

    `refuse` makes the body of a 400 out of a path and what SGLang's models stumbled over, before the engine was asked; without it
    that stays the server's 500.
    """

    def __init__(
        self, app: App, forget: Callable[[Order], None], refuse: Callable[[str, BaseException], bytes] | None = None
    ) -> None:
        self._app = app
        self._forget = forget
        self._refuse = refuse

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        order = Order.of(scope) if scope["type"] == "http" else None
        if order is None:
            await self._app(scope, receive, send)
            return
        scope[SCOPE_KEY] = order
        token = CURRENT.set(order)
        opening = Opening(send, is_held=order.rid is not None and order.generates)
        writer = _AnswerWriter(order, ENDINGS[scope["path"]], opening.send).send if order.wants_record else opening.send
        try:
            await self._app(scope, receive, writer)
        except BAD_VALUE as error:
            if opening.has_begun or self._refuse is None or order.rid is None or order.record is not None:
                raise
            await answer(send, 400, self._refuse(scope["path"], error))
        finally:
            CURRENT.reset(token)
            self._forget(order)


class _AnswerWriter:
    """Watches the messages of one answer and adds the record where it belongs."""

    def __init__(self, order: Order, ending: Ending, send: Send) -> None:
        self._order = order
        self._ending = ending
        self._send = send
        self._is_stream = False
        self._held: Message | None = None
        self._body: list[bytes] = []
        self._num_finished = 0

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            await self._start(message)
        elif message["type"] != "http.response.body":
            await self._send(message)
        elif self._is_stream:
            await self._stream_part(message)
        elif self._held is not None:
            await self._json_part(message)
        else:
            await self._send(message)

    async def _start(self, message: Message) -> None:
        kind = kind_of(message)
        self._is_stream = kind.startswith(b"text/event-stream")
        if message["status"] == 200 and kind.startswith(b"application/json"):
            self._held = message  # its content-length is not known yet
        else:
            await self._send(message)

    async def _stream_part(self, message: Message) -> None:
        recorder = self._order.record
        num_finished = self._ending.count(message["body"])
        if recorder is not None and num_finished:
            self._num_finished += num_finished
            is_last = self._num_finished == (recorder.num_choices if self._ending.holds else 1)
            record = recorder.encode() if is_last else None
            if record is not None:
                event = EVENT_PREFIX + record + b"\n\n"
                await self._send({"type": "http.response.body", "body": event, "more_body": True})
        await self._send(message)

    async def _json_part(self, message: Message) -> None:
        self._body.append(message.get("body", b""))
        if message.get("more_body", False):
            return
        assert self._held is not None
        body = b"".join(self._body)
        record = None if self._order.record is None else self._order.record.encode()
        if record is not None and body.endswith(b"}"):
            body = body[:-1] + JSON_FIELD + record + b"}"
        await self._send({**self._held, "headers": _with_length(self._held["headers"], len(body))})
        await self._send({"type": "http.response.body", "body": body, "more_body": False})


def _with_length(headers: list[tuple[bytes, bytes]], length: int) -> list[tuple[bytes, bytes]]:
    return [(name, str(length).encode() if name.lower() == b"content-length" else value) for name, value in headers]

"""The journal's side of one POST to an MCP server: an exchange for each tool call, resource read, and error.

Begun before the server is asked, committed before the agent has the answer in full, as model calls are.
"""

import asyncio
import logging
from dataclasses import dataclass

from atdp.ids import new_event_id
from dataproxy.capture.errors import JournalError, JournalFailed, JournalFull
from dataproxy.capture.records import Delivery, RequestHalf, ResponseHalf
from gateway.call import now_us
from gateway.errors import Refused
from gateway.exchange import journal_refusal
from gateway.keys import Identity
from gateway.mcp.messages import MAX_BYTES, RECORDED, Reply, Request
from gateway.state import Gateway

log = logging.getLogger(__name__)
DIALECT = "mcp"


@dataclass(slots=True, frozen=True)
class Asked:
    """Who asks which server, in which session ("" for none), with which headers on record."""

    identity: Identity
    server: str
    session: str
    headers: dict[str, str]


class Recording:
    """What of one POST is on record. Nothing is, where the tenant is not recorded."""

    def __init__(self, gateway: Gateway, asked: Asked, requests: list[Request]) -> None:
        self._gateway = gateway
        self._asked = asked
        self._waiting = {request.key: request for request in requests} if asked.identity.record else {}
        self._begun: dict[str, str] = {}
        self._started_us = now_us()

    def begin(self) -> None:
        """Hand over what is to be recorded whatever comes back.

        Raises:
            Refused: 503, the journal takes nothing and this tenant's calls must be recorded.
        """
        for request in [one for one in self._waiting.values() if one.method in RECORDED]:
            try:
                self._begin(request)
            except JournalError as error:
                self._unrecorded(error)
                return

    def _begin(self, request: Request) -> None:
        asked, event_id = self._asked, new_event_id()
        half = RequestHalf(
            event_id=event_id,
            completion_id="",
            tenant=asked.identity.tenant,
            agent=asked.identity.agent,
            key_id=asked.identity.key_id,
            session_id=asked.session,
            session_source="header" if asked.session else "inferred",
            dialect=DIALECT,
            path=f"/mcp/{asked.server}",
            model=asked.server,
            body=request.body[:MAX_BYTES],
            headers=asked.headers,
            started_us=self._started_us,
        )
        self._gateway.journal.begin(half)
        self._begun[request.key] = event_id

    def _unrecorded(self, error: JournalError) -> None:
        """Go on without the record where the tenant wants it so."""
        self.abandon("aborted")
        self._waiting = {}
        full = isinstance(error, JournalFull)
        if not self._asked.identity.unrecorded:
            if full:
                raise Refused(503, "journal_full", "the journal is full; try again shortly", retry_after_s=5) from error
            raise journal_refusal() from error
        self._gateway.gaps.count(self._asked.identity, "journal_full" if full else "journal_failed")

    async def answered(self, replies: list[Reply], status: int, stream: bool) -> None:
        """``replies`` are about to be the agent's; returns once those on record are durable.

        Raises:
            Refused: 503, they may not be durable and must be.
        """
        for reply in replies:
            request = self._waiting.pop(reply.key, None)
            if request is None:
                continue
            try:
                if reply.key not in self._begun and reply.is_error:
                    self._begin(request)
                if (event_id := self._begun.pop(reply.key, None)) is not None:
                    await self._commit(self._response(event_id, status, reply.body[:MAX_BYTES], stream, "complete"))
            except JournalError as error:
                self._unrecorded(error)

    def abandon(self, delivery: Delivery, status: int = 0, error: str = "") -> None:
        """Whatever has no answer by now gets none. Does nothing twice."""
        begun, self._begun = self._begun, {}
        for event_id in begun.values():
            half = self._response(event_id, status, b"", False, delivery, error)
            try:
                self._gateway.journal.commit(half, _noted)
            except JournalFailed as failure:
                _noted(failure)

    def _response(self, event_id: str, status: int, body: bytes, stream: bool, delivery: Delivery, error: str = "") -> ResponseHalf:
        return ResponseHalf(
            event_id=event_id,
            status=status,
            body=body,
            record=b"",
            stream=stream,
            delivery=delivery,
            worker=self._asked.server,
            first_byte_us=0,
            ended_us=now_us(),
            error=error,
        )

    async def _commit(self, half: ResponseHalf) -> None:
        durable: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def done(failure: JournalFailed | None) -> None:
            if not durable.done():
                durable.set_result(None) if failure is None else durable.set_exception(failure)

        self._gateway.journal.commit(half, done)
        await durable


def _noted(failure: JournalFailed | None) -> None:
    if failure is not None:
        log.error("journal failed for an exchange with an MCP server")

"""The journal's side of one call: begin before the engine is asked, finish once, hold what was sent in between.

A tenant that does not record gets the same steps with nothing behind them.
"""

import logging
from typing import Protocol

from atdp import faults
from dataproxy.capture.errors import JournalError, JournalFailed, JournalFull
from dataproxy.capture.records import Delivery, RequestHalf, ResponseHalf
from gateway.call import Call
from gateway.errors import Refused

log = logging.getLogger(__name__)


class ExchangeJournal(Protocol):
    """What the gateway needs of ``dataproxy.capture.Journal``."""

    def begin(self, half: RequestHalf) -> None:
        """Admit an exchange. Raises JournalFull or JournalFailed."""

    async def finish(self, half: ResponseHalf) -> None:
        """Return once the exchange is durable. Raises JournalFailed."""

    def close(self) -> None:
        """Flush."""


class Exchange:
    """Recording of one call. ``begin`` may refuse it; ``finish`` does its work once, later calls do nothing."""

    def __init__(self, call: Call, journal: ExchangeJournal) -> None:
        self._call = call
        self._journal = journal
        self._open = False
        self._sent: list[bytes] = []
        self.status = 0
        self.stream = False
        self.worker = ""

    def begin(self) -> None:
        """Hand the request half over.

        Raises:
            Refused: 503, the journal takes nothing and this tenant's calls must be recorded.
        """
        if not self._call.recorded:
            return
        try:
            self._journal.begin(self._call.request_half())
        except JournalFull as error:
            raise Refused(503, "journal_full", "the journal is full; try again shortly", retry_after_s=5) from error
        except JournalError as error:
            log.error("journal failed event=%s", self._call.event_id)
            raise journal_refusal() from error
        self._open = True

    def sent(self, data: bytes) -> None:
        """``data`` goes to the agent now."""
        if self._open:
            self._sent.append(data)

    async def finish(self, delivery: Delivery, rest: bytes = b"", record: bytes = b"", error: str = "") -> None:
        """Return once the whole exchange is durable; ``rest`` is what the agent gets after that.

        Raises:
            Refused: 503, it may not be durable.
        """
        if not self._open:
            return
        self._open = False
        half = self._call.response_half(
            status=self.status,
            body=b"".join((*self._sent, rest)),
            record=record,
            stream=self.stream,
            delivery=delivery,
            worker=self.worker,
            error=error,
        )
        if delivery == "complete":
            faults.point("gateway.after_finish_chunk")
        try:
            await self._journal.finish(half)
        except JournalFailed as failure:
            log.error("journal failed event=%s", self._call.event_id)
            raise journal_refusal() from failure
        if delivery == "complete":
            faults.point("gateway.after_commit")


def journal_refusal() -> Refused:
    """The refusal while the journal is broken."""
    return Refused(
        503, "journal_failed", "the journal cannot be written, so nothing is served that must be recorded", retry_after_s=5
    )

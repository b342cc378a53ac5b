"""The journal's side of a call that is recorded: begin before the engine is asked, finish once, hold what was sent in between."""

import logging
from collections.abc import Callable
from typing import Protocol

from atdp import faults
from dataproxy.capture.errors import JournalError, JournalFailed, JournalFull
from dataproxy.capture.records import Delivery, RequestHalf, ResponseHalf
from gateway.call import Call
from gateway.errors import Refused
from gateway.gaps import Gaps

log = logging.getLogger(__name__)

Then = Callable[[Refused | None], None]
"""Called once the exchange is durable, with the refusal if it may not be."""


class ExchangeJournal(Protocol):
    """What the gateway needs of ``dataproxy.capture.Journal``."""

    def begin(self, half: RequestHalf) -> None:
        """Admit an exchange. Raises JournalFull or JournalFailed."""

    def commit(self, half: ResponseHalf, done: Callable[[JournalFailed | None], None]) -> None:
        """Call ``done`` on this loop, later, once the exchange is durable or not. Raises JournalFailed where that is known now."""

    def close(self) -> None:
        """Flush."""

    @property
    def failure(self) -> str | None:
        """Why nothing more can be promised; None while all is well."""


class Exchange:
    """Recording of one call. ``begin`` may refuse it; ``finish`` does its work once."""

    __slots__ = ("_call", "_delivery", "_gaps", "_journal", "_sent", "_then")

    def __init__(self, call: Call, journal: ExchangeJournal, gaps: Gaps) -> None:
        self._call = call
        self._journal = journal
        self._gaps = gaps
        self._sent: list[bytes] = []
        self._then: Then | None = None
        self._delivery: Delivery = "aborted"

    def begin(self) -> bool:
        """Hand the request half over; whether the call is recorded.

        Raises:
            Refused: 503, the journal takes nothing and this tenant's calls must be recorded.
        """
        try:
            self._journal.begin(self._call.request_half())
        except JournalFull as error:
            if self._may_go_unrecorded("journal_full"):
                return False
            raise Refused(503, "journal_full", "the journal is full; try again shortly", retry_after_s=5) from error
        except JournalError as error:
            if self._may_go_unrecorded("journal_failed"):
                return False
            log.error("journal failed event=%s", self._call.event_id)
            raise journal_refusal() from error
        return True

    def _may_go_unrecorded(self, reason: str) -> bool:
        """Whether the tenant wants it so; then the gap is counted."""
        identity = self._call.identity
        if identity.unrecorded:
            self._gaps.count(identity, reason)
        return identity.unrecorded

    def sent(self, data: bytes) -> None:
        """``data`` goes to the agent now."""
        self._sent.append(data)

    def finish(
        self,
        *,
        status: int,
        stream: bool,
        delivery: Delivery,
        worker: str,
        lane: str,
        rest: bytes,
        record: bytes,
        error: str,
        then: Then,
    ) -> None:
        """Hand the response half over; ``then`` is called once the whole exchange is durable.

        ``rest`` is what the agent gets after that.
        """
        self._then, self._delivery = then, delivery
        half = self._call.response_half(
            status=status,
            body=b"".join((*self._sent, rest)) if self._sent else rest,
            record=record,
            stream=stream,
            delivery=delivery,
            worker=worker,
            error=error,
            lane=lane,
        )
        if delivery == "complete":
            faults.point("gateway.after_finish_chunk")
        try:
            self._journal.commit(half, self._committed)
        except JournalFailed as failure:
            self._committed(failure)

    def _committed(self, failure: JournalFailed | None) -> None:
        then, self._then = self._then, None  # which lets the relay go without the garbage collector
        assert then is not None
        if failure is not None:
            log.error("journal failed event=%s", self._call.event_id)
            then(None if self._may_go_unrecorded("journal_failed") else journal_refusal())
            return
        if self._delivery == "complete":
            faults.point("gateway.after_commit")
        then(None)


def journal_refusal() -> Refused:
    """The refusal while the journal is broken."""
    return Refused(
        503, "journal_failed", "the journal cannot be written, so nothing is served that must be recorded", retry_after_s=5
    )

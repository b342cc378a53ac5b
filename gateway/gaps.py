"""Gaps in the record: calls served although they could not be recorded, because their tenant wants it so.

Summed by key and reason, and told to the data proxy until it has them; it makes an event of each. Bounded by the number of keys:
what is not told yet goes on counting.
"""

import logging
import time

import msgspec

from atdp.ids import new_event_id
from gateway.errors import UpstreamError
from gateway.keys import Identity
from gateway.upstream.fetch import Request, fetch
from gateway.upstream.origin import Origin
from gateway.upstream.pool import Pool

log = logging.getLogger(__name__)


class Gap(msgspec.Struct):
    """``num_calls`` of one key between ``first_us`` and ``last_us`` (UTC µs) that are not in the record."""

    gap_id: str
    tenant: str
    agent: str
    key_id: str
    reason: str
    num_calls: int
    first_us: int
    last_us: int


class Gaps:
    """What is not told yet. ``num_calls`` counts since the start."""

    def __init__(self) -> None:
        self.num_calls = 0
        self._open: dict[tuple[str, str], Gap] = {}
        self._telling: list[Gap] = []

    def count(self, identity: Identity, reason: str) -> None:
        """One more call of ``identity`` goes unrecorded."""
        now_us = time.time_ns() // 1000
        self.num_calls += 1
        gap = self._open.get((identity.key_id, reason))
        if gap is None:
            log.warning("calls go unrecorded tenant=%s key=%s: %s", identity.tenant, identity.key_id, reason)
            gap = Gap(new_event_id(), identity.tenant, identity.agent, identity.key_id, reason, 0, now_us, now_us)
            self._open[identity.key_id, reason] = gap
        gap.num_calls += 1
        gap.last_us = now_us

    async def tell(self, pool: Pool, dataproxy: Origin, key: str, timeout_s: float) -> None:
        """Tell what has been counted; what is not acknowledged is told again, under its own ids, so it counts once."""
        if not self._telling:
            self._telling, self._open = list(self._open.values()), {}
        if not self._telling:
            return
        headers = [(b"authorization", b"Bearer " + key.encode()), (b"content-type", b"application/json")]
        request = Request("POST", "/v1/gaps", headers, msgspec.json.encode(self._telling))
        try:
            answer = await fetch(pool, dataproxy, request, timeout_s)
        except UpstreamError as error:
            log.warning("gaps of %d keys are not told yet: %s", len(self._telling), error)
            return
        if answer.status == 200:
            self._telling = []
        else:
            log.warning("gaps of %d keys are not taken yet: status %d", len(self._telling), answer.status)

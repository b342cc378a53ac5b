"""One detector a tenant for pseudonyms, apart from the drain's, so that neither waits for the other. Any thread."""

import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field

from dataproxy.digests import KeyedDigests, tenant_key
from dataproxy.pseudonym_types import Pseudonymized
from dataproxy.pseudonyms.substitute import pseudonymized
from dataproxy.redact.detector import Detector
from dataproxy.redact.errors import RedactionFailed
from dataproxy.redact.policy import RedactionPolicy

LIMIT_S = 5.0
_POLICY_S = 2.0
_MOST_TENANTS = 64


@dataclass(slots=True)
class _Seat:
    number: int
    detector: Detector
    until_s: float
    lock: threading.Lock = field(default_factory=threading.Lock)


class PseudonymDesk:
    """``secret`` is behind every tenant's key; ``policy_of`` gives the number and the policy of a tenant."""

    def __init__(self, secret: bytes, policy_of: Callable[[str], tuple[int, RedactionPolicy]]) -> None:
        self._secret = secret
        self._policy_of = policy_of
        self._seats: OrderedDict[str, _Seat] = OrderedDict()
        self._lock = threading.Lock()

    def substitute(self, tenant: str, session_id: str, body: bytes) -> Pseudonymized:
        """``body`` with surrogates that hold in ``session_id`` of ``tenant``.

        Raises:
            RedactionFailed: it cannot be done for certain, or not in time.
            msgspec.DecodeError: the body is no JSON object.
        """
        key = tenant_key(self._secret, tenant)
        seat = self._seat(tenant, key)
        if not seat.lock.acquire(timeout=LIMIT_S):
            raise RedactionFailed("timeout", "other requests of the tenant go on")
        try:
            return pseudonymized(seat.detector, KeyedDigests(key), session_id, body, LIMIT_S)
        finally:
            seat.lock.release()

    def _seat(self, tenant: str, key: bytes) -> _Seat:
        with self._lock:
            seat, now_s = self._seats.get(tenant), time.monotonic()
            if seat is None or now_s >= seat.until_s:
                number, policy = self._policy_of(tenant)
                if seat is None or seat.number != number:
                    seat = _Seat(number, Detector(key, policy), now_s)
                seat.until_s = now_s + _POLICY_S
                self._seats[tenant] = seat
            self._seats.move_to_end(tenant)
            if len(self._seats) > _MOST_TENANTS:
                self._seats.popitem(last=False)
            return seat

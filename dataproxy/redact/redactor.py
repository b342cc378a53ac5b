"""Redacts whole exchanges and single texts. The one door to this package; everything it cannot do for certain raises.

An exchange is looked at twice, as JSON leaves and as the decoded bytes of its exact tokens. What one look finds is searched for
in the other in every spelling; what should be in both and is not sends the exchange to the quarantine.
"""

import threading
import time
from typing import Final

from atdp.events import Span
from dataproxy.redact.detector import NO_POLICY, Detector
from dataproxy.redact.errors import RedactionFailed
from dataproxy.redact.exchange import Exchange, RedactedExchange, RedactedText
from dataproxy.redact.findings import Findings
from dataproxy.redact.policy import RedactionPolicy
from dataproxy.redact.rules import VERSION
from dataproxy.redact.tokens import TokenBytes
from dataproxy.redact.units import UnitMemory

LIMIT_S: Final = 5.0


class Redactor:
    """Redacts for one tenant. Safe to call from several threads, one call runs at a time.

    >>> redactor = Redactor(tenant_key, mask_id=16, tokens=TokenBytes.from_file(model / "tokenizer.json"))
    >>> redactor.redact_text("write to a@b.com").text
    'write to <EMAIL_1>'
    """

    def __init__(
        self,
        tenant_key: bytes,
        mask_id: int,
        tokens: TokenBytes | None,
        limit_s: float = LIMIT_S,
        policy: RedactionPolicy = NO_POLICY,
        number: int = 0,
    ) -> None:
        """``mask_id`` overwrites the ids of values. Without ``tokens`` an exchange that has ids is refused.

        ``limit_s`` is the time one call may take; past it the call fails. ``policy`` is the tenant's, its ``number``-th.

        Raises:
            InvalidPolicy: ``policy`` cannot be used.
        """
        self._detector = Detector(tenant_key, policy)
        self._dropped = policy.dropped
        self.version = f"{VERSION}/{number}"
        self._memory = UnitMemory(self._detector)
        self._mask_id = mask_id
        self._tokens = tokens
        self._limit_s = limit_s
        self._lock = threading.Lock()

    def digest(self, data: bytes) -> bytes:
        """The keyed digest of ``data`` that a policy's exact values are known by."""
        return self._detector.digest(data)

    def redact_exchange(self, exchange: Exchange) -> RedactedExchange:
        """``exchange`` without its personal values: same shapes, same token counts.

        Raises:
            RedactionFailed: a value could not be located in the tokens, an id is unknown, time ran out, anything went wrong.
        """
        with self._lock:
            try:
                return self._redact_exchange(exchange)
            except RedactionFailed:
                raise
            except Exception as error:  # noqa: BLE001
                # Whatever broke, nothing may pass; the cause is dropped, for its message may quote the text.
                raise RedactionFailed("error", type(error).__name__) from None

    def redact_text(self, text: str) -> RedactedText:
        """``text`` without its personal values.

        Raises:
            RedactionFailed: time ran out, anything went wrong.
        """
        redacted = self.redact_exchange(Exchange(request=None, response=None, strings={"text": text}))
        spans = [Span(s.kind, s.detector, s.score, "", s.start, s.end, s.surrogate) for s in redacted.spans]
        return RedactedText(redacted.strings["text"], spans)

    def _redact_exchange(self, exchange: Exchange) -> RedactedExchange:
        findings = Findings(self._detector, self._memory, exchange, self._tokens, time.monotonic() + self._limit_s)
        findings.spread()
        findings.check_located()
        return findings.apply(self._mask_id, self.version, self._dropped)

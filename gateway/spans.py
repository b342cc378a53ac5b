"""OpenTelemetry spans of calls, sent as OTLP over HTTP in JSON; only if OpenTelemetry's variable for the endpoint is set.

One span a call, in the trace that the agent's ``traceparent`` names, else in one named by the event id. The agent's trace context
goes to the engine as it came, so an engine's spans stand beside ours. A call costs one append; a round by the clock does the rest,
and drops what a collector that does not answer would pile up. No span holds content, a key, or another header than that one.
"""

import logging
import re
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote, urlsplit

import msgspec

from gateway.call import Call, now_us
from gateway.errors import UpstreamError
from gateway.upstream.connection import Headers
from gateway.upstream.fetch import Request, fetch
from gateway.upstream.origin import Origin
from gateway.upstream.pool import Pool

log = logging.getLogger(__name__)

FLUSH_S = 2.0
_MAX_KEPT = 4096
_MAX_SENT = 512
_TIMEOUT_S = 5.0
_SERVER, _ERROR = 2, 2
_FAILED = frozenset(("upstream_error", "aborted"))
_TRACEPARENT = re.compile(r"[0-9a-f]{2}-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})")


@dataclass(slots=True, frozen=True)
class _Ended:
    call: Call
    status: int
    delivery: str
    worker: str
    ended_us: int


class Spans:
    """Keeps the calls that have ended until ``flush`` sends them."""

    def __init__(self, origin: Origin, path: str, headers: Headers, service: str) -> None:
        self.num_dropped = 0
        self._origin = origin
        self._path = path
        self._headers = [(b"content-type", b"application/json"), *headers]
        self._service = service
        self._ended: deque[_Ended] = deque()
        self._failing = False

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> "Spans | None":
        """By OpenTelemetry's own variables; None where no endpoint is set.

        Raises:
            ValueError: the endpoint is not reachable by plain HTTP.
        """
        base = environment.get("OTEL_EXPORTER_OTLP_ENDPOINT", "").rstrip("/")
        url = environment.get("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") or (base and f"{base}/v1/traces")
        if not url:
            return None
        parts = urlsplit(url)
        pairs = (pair.partition("=") for pair in environment.get("OTEL_EXPORTER_OTLP_HEADERS", "").split(",") if "=" in pair)
        headers = [(name.strip().lower().encode(), unquote(value.strip()).encode()) for name, _, value in pairs]
        service = environment.get("OTEL_SERVICE_NAME", "headrace-gateway")
        return cls(Origin.parse(f"{parts.scheme}://{parts.netloc}"), parts.path or "/", headers, service)

    def record(self, call: Call, status: int, delivery: str, worker: str) -> None:
        """``call`` has ended now; ``status`` is the engine's, 0 if it never answered. ``worker`` was asked last."""
        if len(self._ended) >= _MAX_KEPT:
            self._ended.popleft()
            self.num_dropped += 1
        self._ended.append(_Ended(call, status, delivery, worker, now_us()))

    async def flush(self, pool: Pool) -> None:
        """Send what there is. What a collector does not take is sent again the next time, while it is kept."""
        while self._ended:
            batch = [self._ended[i] for i in range(min(_MAX_SENT, len(self._ended)))]
            spans = [span for ended in batch if (span := _span(ended)) is not None]
            if spans and not await self._send(pool, spans):
                return
            for ended in batch:
                if self._ended and self._ended[0] is ended:
                    self._ended.popleft()

    async def _send(self, pool: Pool, spans: list[dict[str, Any]]) -> bool:
        resource = {"attributes": [_attribute("service.name", self._service)]}
        body = {"resourceSpans": [{"resource": resource, "scopeSpans": [{"scope": {"name": "headrace.gateway"}, "spans": spans}]}]}
        request = Request("POST", self._path, self._headers, msgspec.json.encode(body))
        try:
            answer = await fetch(pool, self._origin, request, _TIMEOUT_S)
            failure = "" if answer.status < 300 else f"status {answer.status}"
        except UpstreamError as error:
            failure = str(error)
        if failure and not self._failing:
            log.warning("spans cannot be sent: %s", failure)
        self._failing = bool(failure)
        return not failure


def _span(ended: _Ended) -> dict[str, Any] | None:
    """One span in OTLP's JSON; None where the agent said that its trace is not sampled."""
    call = ended.call
    trace, parent, flags = _context(call.recorded_headers.get("traceparent", ""))
    if flags is not None and not int(flags, 16) & 1:
        return None
    path = call.dialect.path
    attributes = [
        _attribute("http.request.method", "POST"),
        _attribute("http.route", path),
        _attribute("gen_ai.request.model", call.request.model),
        _attribute("headrace.event", call.event_id),
        _attribute("headrace.delivery", ended.delivery),
        _attribute("headrace.worker", ended.worker),
    ]
    if ended.status:
        attributes.append(_attribute("http.response.status_code", ended.status))
    if call.first_byte_us:
        attributes.append(_attribute("headrace.first_byte_us", call.first_byte_us - call.started_us))
    return {
        "traceId": trace or call.event_id,
        "spanId": call.event_id[16:],
        "parentSpanId": parent,
        "name": f"POST {path}",
        "kind": _SERVER,
        "startTimeUnixNano": str(call.started_us * 1000),
        "endTimeUnixNano": str(ended.ended_us * 1000),
        "attributes": attributes,
        "status": {"code": _ERROR} if ended.status >= 500 or ended.delivery in _FAILED else {},
    }


def _context(traceparent: str) -> tuple[str, str, str | None]:
    """(trace id, parent span id, flags) of a W3C traceparent; empty and None where there is none that is valid."""
    match = _TRACEPARENT.match(traceparent)
    if match is None or not int(match[1], 16) or not int(match[2], 16):
        return "", "", None
    return match[1], match[2], match[3]


def _attribute(key: str, value: str | int) -> dict[str, Any]:
    return {"key": key, "value": {"intValue": str(value)} if isinstance(value, int) else {"stringValue": value}}

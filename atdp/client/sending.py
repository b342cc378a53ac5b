"""One batch to the gateway and its receipts; the pieces that the blocking and the async client share. Blocking."""

import gzip
import http.client
import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import urlsplit

import msgspec

from atdp.client.errors import Denied, NotSent
from atdp.client.queues import Queue
from atdp.ids import new_event_id
from atdp.ingest import MAX_BATCH_BYTES, MAX_EVENTS, Receipt, Receipts

_OVERHEAD: Final = 1024
_COMPRESSED_FROM: Final = 4096
_FIRST_WAIT_S: Final = 0.5
_LONGEST_WAIT_S: Final = 30.0


@dataclass(slots=True)
class Outcome:
    """What became of the events that were sent: how many are stored, were known already, or were refused (with the receipts)."""

    num_stored: int = 0
    num_duplicate: int = 0
    refused: list[Receipt] = field(default_factory=list)

    def add(self, receipts: list[Receipt]) -> None:
        """Count ``receipts``."""
        for receipt in receipts:
            self.num_stored += receipt.status == "stored"
            self.num_duplicate += receipt.status == "duplicate"
            if receipt.status == "refused":
                self.refused.append(receipt)


def event_body(kind: str, fields: Mapping[str, Any]) -> bytes:
    """JSON of an event of ``kind`` that happened now, under a new id, unless ``fields`` say so. Tenant and agent are the key's."""
    now_us = time.time_ns() // 1000
    started_at = fields.get("started_at", now_us)
    stamped = {
        "event_id": str(uuid.UUID(new_event_id())),
        "kind": kind,
        "started_at": started_at,
        "ended_at": max(now_us, started_at),
    }
    return msgspec.json.encode({**stamped, **fields})


class _Unfit(Exception):
    """The gateway will never take this body."""


class Sender:
    """Sends batches to ``base_url`` under ``key``; keeps one connection."""

    def __init__(self, base_url: str, key: str, session_id: str, timeout_s: float) -> None:
        parts = urlsplit(base_url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"{base_url!r} is no base URL; expected a form such as http://127.0.0.1:8080")
        kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
        self._connection = kind(parts.hostname, parts.port, timeout=timeout_s)
        self._path = parts.path.rstrip("/").removesuffix("/v1") + "/v1/events"
        self._headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
        if session_id:
            self._headers["X-Headrace-Session"] = session_id

    def send_oldest(self, queue: Queue) -> list[Receipt]:
        """Send the oldest batch of ``queue``; what has its receipts by then is dropped from it.

        Raises:
            NotSent: try again. Denied: the key.
        """
        events = queue.peek(MAX_EVENTS, MAX_BATCH_BYTES - _OVERHEAD)
        receipts: list[Receipt] | None = [] if not events else None
        while receipts is None:
            try:
                receipts = self._post(b'{"events":[' + b",".join(events) + b"]}")
            except _Unfit as error:  # find the event at fault: it must not hold up those behind it
                receipts = [Receipt("", "refused", "", str(error))] if len(events) == 1 else None
                events = events[: max(1, len(events) // 2)]
        if len(receipts) != len(events):
            raise NotSent(f"the gateway gave {len(receipts)} receipts for {len(events)} events")
        queue.drop(len(events))
        return receipts

    def close(self) -> None:
        """Let go of the connection."""
        self._connection.close()

    def _post(self, body: bytes) -> list[Receipt]:
        packed = gzip.compress(body, 1) if len(body) >= _COMPRESSED_FROM else body
        headers = self._headers | ({"Content-Encoding": "gzip"} if packed is not body else {})
        try:
            self._connection.request("POST", self._path, packed, headers)
            answer = self._connection.getresponse()
            data = answer.read()
        except (OSError, http.client.HTTPException) as error:
            self._connection.close()
            raise NotSent(f"the gateway does not answer ({error!r})") from error
        if answer.status in (401, 403):
            raise Denied(f"the gateway refuses the key ({answer.status}): {_message(data)}")
        if answer.status in (400, 413, 422):
            raise _Unfit(_message(data))
        if answer.status != 200:
            wait = answer.headers.get("Retry-After", "")
            raise NotSent(f"the gateway answered {answer.status}: {_message(data)}", float(wait) if wait.isdigit() else None)
        try:
            return msgspec.json.decode(data, type=Receipts).receipts
        except msgspec.DecodeError as error:
            raise NotSent(f"the gateway's receipts are not understood: {error}") from error


def wait_s(attempt: int, asked: float | None) -> float:
    """Seconds before attempt number ``attempt`` (from 1): twice as long each time, or what the gateway asks for."""
    return asked if asked is not None else min(_LONGEST_WAIT_S, _FIRST_WAIT_S * 2 ** (attempt - 1))


def _message(data: bytes) -> str:
    try:
        return str(msgspec.json.decode(data, type=dict[str, dict[str, Any]])["error"]["message"])
    except (msgspec.DecodeError, KeyError):
        return "no reason given"

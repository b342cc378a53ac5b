"""Identifiers: time-ordered event ids, and completion ids that prove that Headrace minted them.

A completion id is what the agent sees as the ``id`` of its answer and what the engine knows as ``rid``. It carries the event id
and a MAC over (tenant, event id), so feedback for an answer that is not yet stored can be told from a forged one.
"""

import hashlib
import hmac
import os
import time
from typing import Final

_PREFIX: Final = "chatcmpl-"
_EVENT_HEX: Final = 32
_MAC_HEX: Final = 16


def new_event_id() -> str:
    """A UUIDv7 (RFC 9562) as 32 hex digits: sorts by creation time in milliseconds."""
    milliseconds = time.time_ns() // 1_000_000
    random = int.from_bytes(os.urandom(10), "big")
    value = (milliseconds & 0xFFFFFFFFFFFF) << 80 | 0x7 << 76 | (random >> 68 & 0xFFF) << 64 | 0b10 << 62
    return f"{value | random & 0x3FFFFFFFFFFFFFFF:032x}"


def mint_completion_id(secret: bytes, tenant: str, event_id: str) -> str:
    """The completion id of ``event_id`` for ``tenant``: ``chatcmpl-`` + event id + 16 hex digits of HMAC-SHA256."""
    return f"{_PREFIX}{event_id}{_mac(secret, tenant, event_id)}"


def verify_completion_id(secret: bytes, tenant: str, completion_id: str) -> str | None:
    """The event id inside a completion id that ``tenant`` was given, or None if it is forged or another tenant's."""
    body = completion_id.removeprefix(_PREFIX)
    if len(body) != _EVENT_HEX + _MAC_HEX or not completion_id.startswith(_PREFIX):
        return None
    event_id, mac = body[:_EVENT_HEX], body[_EVENT_HEX:]
    expected = _mac(secret, tenant, event_id)
    return event_id if hmac.compare_digest(mac.encode(), expected.encode()) else None


def _mac(secret: bytes, tenant: str, event_id: str) -> str:
    return hmac.digest(secret, f"{tenant}\0{event_id}".encode(), hashlib.sha256).hex()[:_MAC_HEX]

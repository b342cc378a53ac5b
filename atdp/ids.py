"""Identifiers: time-ordered event ids, and completion ids that prove that Headrace minted them.

A completion id is what the agent sees as the ``id`` of its answer and what the engine knows as ``rid``. It carries the event id
and a MAC over (tenant, event id), so feedback for an answer that is not yet stored can be told from a forged one.
"""

import hmac
import os
import time
from functools import lru_cache
from hashlib import blake2b
from typing import Final

PREFIXES: Final = ("chatcmpl-", "cmpl-", "resp_", "msg_")
"""What a completion id begins with: the dialect's own, so that agents take the id for one of their kind."""

_EVENT_HEX: Final = 32
_MAC_HEX: Final = 16
_POOL_BYTES: Final = 4000
_ID_HEX: Final = 19
_VARIANT: Final = {digit: "89ab"[int(digit, 16) & 3] for digit in "0123456789abcdef"}
"""RFC 9562 sets the first two bits of this digit."""


class _Entropy:
    """Random bits for ids, asked of the system a few hundred ids at a time. A forked child starts with none of its parent's."""

    def __init__(self) -> None:
        self._pool = ""
        self._at = 0
        os.register_at_fork(after_in_child=self._forget)

    def digits(self) -> str:
        """As many random hex digits as an id holds."""
        at, end = self._at, self._at + _ID_HEX
        if end > len(self._pool):
            self._pool, at, end = os.urandom(_POOL_BYTES).hex(), 0, _ID_HEX
        self._at = end
        return self._pool[at:end]

    def _forget(self) -> None:
        self._pool = ""


_entropy = _Entropy()
_HEX: Final = frozenset("0123456789abcdef")


def new_event_id() -> str:
    """A UUIDv7 (RFC 9562) as 32 hex digits: sorts by creation time in milliseconds."""
    random = _entropy.digits()
    return f"{time.time_ns() // 1_000_000:012x}7{random[:3]}{_VARIANT[random[3]]}{random[4:]}"


def mint_completion_id(secret: bytes, tenant: str, event_id: str, prefix: str = "chatcmpl-") -> str:
    """The completion id of ``event_id`` for ``tenant``: ``prefix`` + event id + 16 hex digits of keyed BLAKE2b (RFC 7693)."""
    return f"{prefix}{event_id}{_mac(secret, tenant, event_id)}"


def verify_completion_id(secret: bytes, tenant: str, completion_id: str) -> str | None:
    """The event id inside a completion id that ``tenant`` was given, or None if it is forged or another tenant's.

    The prefix is no part of what is proven: whatever dialect an id came in, it names the same event.
    """
    prefix = next((one for one in PREFIXES if completion_id.startswith(one)), None)
    if prefix is None or not completion_id.isascii() or len(completion_id) != len(prefix) + _EVENT_HEX + _MAC_HEX:
        return None
    body = completion_id[len(prefix) :]
    event_id, mac = body[:_EVENT_HEX], body[_EVENT_HEX:]
    expected = _mac(secret, tenant, event_id)
    return event_id if hmac.compare_digest(mac.encode(), expected.encode()) else None


def event_id_in(completion_id: str) -> str | None:
    """The event id inside a completion id of any tenant, unproven: look it up inside a tenant only. None for anything else."""
    prefix = next((one for one in PREFIXES if completion_id.startswith(one)), None)
    body = completion_id.removeprefix(prefix or "")
    is_minted = prefix is not None and len(body) == _EVENT_HEX + _MAC_HEX and _HEX.issuperset(body)
    return body[:_EVENT_HEX] if is_minted else None


def _mac(secret: bytes, tenant: str, event_id: str) -> str:
    mac = _keyed(secret).copy()
    mac.update(f"{tenant}\0{event_id}".encode())
    return mac.hexdigest()


@lru_cache(maxsize=8)
def _keyed(secret: bytes) -> blake2b:
    return blake2b(key=secret, digest_size=_MAC_HEX // 2, person=b"headrace.id")

"""Names the session of a call, and the affinity key by which the router chooses.

A session is named by the agent (URL, header, body), or inferred from what stays the same through a conversation. An inferred name
only groups calls for routing: which conversation a call belongs to is settled later, by exact token prefix.
"""

import hashlib
import hmac
from dataclasses import dataclass
from typing import Literal

from gateway.dialects import MESSAGES, Dialect
from gateway.parsing import AgentRequest
from gateway.upstream.connection import Headers

Source = Literal["url", "header", "body", "inferred"]

_HEADERS = (
    b"x-headrace-session",
    b"x-session-id",
    b"x-smg-routing-key",
    b"x-session-affinity",
    b"x-litellm-session-id",
    b"session-id",
    b"session_id",
    b"thread-id",
)
_RANK = {name: rank for rank, name in enumerate(_HEADERS)}
_IN_USER_ID = "_session_"
_MAX_NAME = 128


@dataclass(slots=True, frozen=True)
class Session:
    """``session_id`` is printable ASCII; ``affinity`` (16 bytes, keyed by tenant) is what the router hashes."""

    session_id: str
    source: Source
    affinity: bytes


@dataclass(slots=True, frozen=True)
class SessionNamer:
    """Finds a call's session. ``secret`` keys the digests, so that they say nothing about the text."""

    secret: bytes
    user_is_session: bool = False

    def name(
        self, tenant: str, key_id: str, url_session: str, headers: Headers, request: AgentRequest, dialect: Dialect
    ) -> Session:
        """The session of a call by ``key_id`` of ``tenant``; ``url_session`` comes from ``/s/<id>/…`` or is empty."""
        session_id, source = self._explicit(url_session, headers, request, dialect)
        if not session_id:
            digest = self._digest(key_id.encode(), *dialect.opening(request.fields))
            session_id, source = f"inferred-{digest.hex()}", "inferred"
        return Session(session_id, source, self._digest(tenant.encode(), session_id.encode()))

    def _explicit(self, url_session: str, headers: Headers, request: AgentRequest, dialect: Dialect) -> tuple[str, Source]:
        if url_session:
            return self._printable(url_session), "url"
        if value := header_session(headers):
            return self._printable(value.decode("latin-1")), "header"
        body = request.metadata("session_id") or request.text("prompt_cache_key")
        if not body:
            body = self._of_user(request.metadata("user_id") if dialect is MESSAGES else request.text("user"))
        return self._printable(body), "body"

    def _of_user(self, user: str) -> str:
        """The session inside a user's name, as Claude Code puts it there, else the user where those are sessions by policy."""
        return user.rpartition(_IN_USER_ID)[2] if _IN_USER_ID in user else user * self.user_is_session

    def _printable(self, name: str) -> str:
        """``name`` itself, or a keyed digest of it where it could not stand in a header or is too long."""
        if len(name) <= _MAX_NAME and name.isascii() and name.isprintable():
            return name
        return f"digest-{self._digest(name.encode('utf-8', 'surrogatepass')).hex()}"

    def _digest(self, *parts: bytes) -> bytes:
        """16 bytes; lengths are part of what is hashed, so that parts cannot run into each other."""
        message = b"".join(len(part).to_bytes(8, "little") + part for part in parts)
        return hmac.digest(self.secret, message, hashlib.sha256)[:16]


def header_session(headers: Headers) -> bytes:
    """The session that a header names, in the order of ``_HEADERS``, then any ``x-*-session-id``; empty if none does."""
    best, found = len(_HEADERS) + 1, b""
    for name, value in headers:
        rank = _RANK.get(name)
        if rank is None and name.startswith(b"x-") and name.endswith(b"-session-id"):
            rank = len(_HEADERS)
        if rank is not None and rank < best and value.strip():
            best, found = rank, value.strip()
    return found

"""Names the session of a call, and the affinity key by which the router chooses.

A session is named by the agent (URL, header, body), or inferred from what stays the same through a conversation. An inferred name
only groups calls for routing: which conversation a call belongs to is settled later, by exact token prefix.
"""

from hashlib import blake2b
from typing import Literal

import msgspec

from gateway.dialects import MESSAGES, Dialect
from gateway.dialects.openings import Beginnings, Opening
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
_HINTS = frozenset(("metadata", "user"))
"""Fields of a body that may name a session. Not `prompt_cache_key`: agents share one among all conversations with the same
instructions."""
_IN_USER_ID = "_session_"
_MAX_NAME = 128
_HASHED_BYTES = 4096


class Session(msgspec.Struct, frozen=True, gc=False):
    """``session_id`` is printable ASCII; ``affinity`` (16 bytes, keyed by tenant) is what the router hashes."""

    session_id: str
    source: Source
    affinity: bytes


class SessionNamer:
    """Finds a call's session. ``secret`` keys the digests (BLAKE2b), so that they say nothing about the text."""

    def __init__(self, secret: bytes, user_is_session: bool = False) -> None:
        self.user_is_session = user_is_session
        self._keyed = blake2b(key=secret, digest_size=16, person=b"headrace.session")

    def name(self, tenant: str, key_id: str, url_session: str, header: bytes, request: AgentRequest, dialect: Dialect) -> Session:
        """The session of a call by ``key_id`` of ``tenant``.

        ``url_session`` comes from ``/s/<id>/…``, ``header`` from ``header_session``; both may be empty.
        """
        name, source = self.explicit(url_session, header, request, dialect)
        return self.named(tenant, name, source) if name else self.inferred(key_id, dialect.opening(request.fields, Beginnings()))

    def named(self, tenant: str, name: str, source: Source) -> Session:
        """The session that an agent of ``tenant`` calls ``name``."""
        return Session(name, source, self._digest(tenant.encode(), name.encode(), b""))

    def inferred(self, key_id: str, opening: Opening) -> Session:
        """The session of what begins with ``opening`` under a key."""
        digest = self._digest(key_id.encode(), *opening)
        return Session("inferred-" + digest.hex(), "inferred", digest)

    def explicit(self, url_session: str, header: bytes, request: AgentRequest, dialect: Dialect) -> tuple[str, Source]:
        """(name, where it stands); empty where the agent names no session."""
        if url_session:
            return self.printable(url_session), "url"
        if header:
            return self.printable(header.decode("latin-1")), "header"
        if _HINTS.isdisjoint(request.fields):
            return "", "body"
        body = request.metadata("session_id")
        if not body:
            body = self._of_user(request.metadata("user_id") if dialect is MESSAGES else request.text("user"))
        return self.printable(body), "body"

    def _of_user(self, user: str) -> str:
        """The session inside a user's name, as Claude Code puts it there, else the user where those are sessions by policy."""
        return user.rpartition(_IN_USER_ID)[2] if _IN_USER_ID in user else user * self.user_is_session

    def printable(self, name: str) -> str:
        """``name`` itself, or a keyed digest of it where it could not stand in a header or is too long."""
        if len(name) <= _MAX_NAME and name.isascii() and name.isprintable():
            return name
        return f"digest-{self._digest(name.encode('utf-8', 'surrogatepass'), b'', b'').hex()}"

    def _digest(self, one: bytes, two: bytes, three: bytes) -> bytes:
        """16 bytes. Lengths are hashed too, so that parts cannot run into each other; long parts count by their ends."""
        message = b"%d,%d,%d;%b%b%b" % (len(one), len(two), len(three), _ends(one), _ends(two), _ends(three))
        digest = self._keyed.copy()
        digest.update(message)
        return digest.digest()


def _ends(part: bytes) -> bytes:
    return part if len(part) <= 2 * _HASHED_BYTES else part[:_HASHED_BYTES] + part[-_HASHED_BYTES:]


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

"""What a request's head says, read once: the next head of a connection mostly differs in Content-Length only, and is not parsed.

``Facts`` holds what does not depend on the body. ``KnownHead`` recognises the head that a connection sent before.
"""

import re

from gateway.dialects import Dialect
from gateway.headers import credential_in, forwarded_lines, recorded_headers
from gateway.keys import Identity, KeyTable
from gateway.sessions import header_session
from gateway.upstream.connection import Headers

_LENGTH = re.compile(rb"\r\ncontent-length:[ \t]*([0-9]+)[ \t]*\r\n", re.IGNORECASE)
_MAX_DIGITS = 15


class Facts:
    """One head. ``keep_alive`` and ``framed`` (the client understands chunks) are the protocol's; ``url_session`` is the path's."""

    __slots__ = (
        *("credential", "dialect", "encoding", "expects", "forwarded", "framed", "keep_alive", "length", "recorded", "session"),
        *("url_session", "_generation", "_identity"),
    )

    def __init__(self, dialect: Dialect, url_session: str, headers: Headers, keep_alive: bool, framed: bool) -> None:
        fields = dict(headers)
        self.dialect = dialect
        self.url_session = url_session
        self.keep_alive = keep_alive
        self.framed = framed
        self.credential = credential_in(fields)
        self.length = fields.get(b"content-length", b"")
        self.encoding = fields.get(b"content-encoding", b"")
        self.expects = fields.get(b"expect", b"").lower() == b"100-continue"
        self.session = header_session(headers)
        self.forwarded = forwarded_lines(headers)
        self.recorded = recorded_headers(headers)
        self._generation = -1
        self._identity: Identity | None = None

    def caller(self, keys: KeyTable) -> Identity:
        """Who calls, by the table that is there.

        Raises:
            Refused: 401 or 403.
        """
        identity = self._identity
        if identity is None or self._generation != keys.generation or identity.expires_us is not None:
            self._identity = identity = keys.known_caller(self.credential)
            self._generation = keys.generation
        return identity


class KnownHead:
    """The last head of a connection, around the digits of its Content-Length.

    Example:
        >>> known = KnownHead.of(b"POST / HTTP/1.1\\r\\nContent-Length: 2\\r\\n\\r\\nab", facts)
        >>> known.body(b"POST / HTTP/1.1\\r\\nContent-Length: 1\\r\\n\\r\\nc")
        b'c'
    """

    __slots__ = ("_after", "_before", "facts")

    def __init__(self, before: bytes, after: bytes, facts: Facts) -> None:
        self._before = before
        self._after = after
        self.facts = facts

    @classmethod
    def of(cls, data: bytes, facts: Facts) -> "KnownHead | None":
        """The head that ``data`` begins with; None where it is not worth it: cut, without a length, or of a rare shape."""
        end = data.find(b"\r\n\r\n") + 4
        match = _LENGTH.search(data, 0, end) if end >= 4 else None
        if match is None or facts.expects or facts.encoding or not (facts.keep_alive and facts.framed):
            return None
        return cls(data[: match.start(1)], data[match.end(1) : end], facts)

    def body(self, data: bytes) -> bytes | None:
        """The body of the request in ``data``, if it is whole, alone, and under this head."""
        before = self._before
        if not data.startswith(before):
            return None
        start = len(before)
        end = data.find(b"\r", start, start + _MAX_DIGITS)
        digits = data[start:end]
        if end < 0 or not digits.isdigit() or not data.startswith(self._after, end):
            return None
        body_at = end + len(self._after)
        return data[body_at:] if len(data) - body_at == int(digits) else None

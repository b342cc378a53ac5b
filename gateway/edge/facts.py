"""What a request's head says, but for its length: read once, and again only when a connection's head changes."""

from gateway.dialects import Dialect
from gateway.dialects.openings import Beginnings
from gateway.groups import HEADER
from gateway.headers import credential_in, forwarded_lines, recorded_headers
from gateway.keys import Identity, KeyTable
from gateway.parsing import AgentRequest
from gateway.sessions import Session, SessionNamer, header_session
from gateway.upstream.connection import Headers


class Facts:
    """One head. ``keep_alive`` and ``framed`` (the client understands chunks) are the protocol's; ``url_session`` is the path's."""

    __slots__ = (
        *("credential", "dialect", "encoding", "expects", "forwarded", "framed"),
        *("group", "keep_alive", "length", "recorded", "session"),
        *("url_session", "_beginnings", "_generation", "_identity", "_named", "_named_by"),
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
        self.group = fields.get(HEADER, b"")
        self.forwarded = forwarded_lines(headers)
        self.recorded = recorded_headers(headers)
        self._beginnings = Beginnings()
        self._generation = -1
        self._identity: Identity | None = None
        self._named_by: tuple[object, ...] = ()
        self._named: Session | None = None

    @property
    def plain(self) -> bool:
        """Whether nothing about the request is rare."""
        return self.keep_alive and self.framed and not self.expects and not self.encoding

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

    def name_session(self, namer: SessionNamer, identity: Identity, request: AgentRequest) -> Session:
        """The session of ``request``: in most conversations that of the one before on this connection."""
        name, source = namer.explicit(self.url_session, self.session, request, self.dialect)
        opening = (b"", b"") if name else self.dialect.opening(request.fields, self._beginnings)
        named_by = (identity.key_id, name, *opening)
        if self._named is None or named_by != self._named_by:
            self._named_by = named_by
            self._named = namer.named(identity.tenant, name, source) if name else namer.inferred(identity.key_id, opening)
        return self._named

"""Which headers cross the gateway. Towards the engine an allow-list: SGLang has headers that choose ids, ranks, priorities."""

from collections.abc import Mapping

from gateway.call import Call
from gateway.upstream.connection import Headers

_TRACE = (b"traceparent", b"tracestate", b"baggage", b"x-request-id")
_TO_ENGINE = frozenset((b"content-type", b"accept", b"user-agent", b"anthropic-version", b"anthropic-beta", *_TRACE))
_OWN = (b"x-headrace-release", b"x-headrace-retrieval")
_RECORDED = frozenset((b"user-agent", b"traceparent", b"x-stainless-retry-count", *_OWN))
_NOT_TO_AGENT = frozenset((b"connection", b"keep-alive", b"transfer-encoding", b"content-length", b"date"))


def forwarded_lines(headers: Headers) -> bytes:
    """The agent's headers that the engine sees, as lines."""
    return b"".join(b"%b: %b\r\n" % header for header in headers if header[0] in _TO_ENGINE)


def recorded_headers(headers: Headers) -> dict[str, str]:
    """The agent's headers that the journal keeps."""
    return {name.decode("latin-1"): value.decode("latin-1") for name, value in headers if name in _RECORDED}


def engine_request(call: Call, host: str) -> bytes:
    """The whole request that the engine gets, head and body.

    The record is asked for where the tenant records, or the key is metered. Id and cache salt always go along where tokens are
    sampled: aborts and isolation need them. Calls that count or embed have an id too: under it the engine reads them as the others.
    """
    dialect, body = call.dialect, call.request.body
    if dialect.generates:
        asked = b"x-headrace-record: 1\r\n" if call.wants_record else b""
        fields = (asked, call.completion_id.encode(), call.identity.cache_salt)
        own = b"%bx-headrace-rid: %b\r\nx-headrace-cache-salt: %b\r\n" % fields
    else:
        own = b"x-headrace-rid: %b\r\n" % call.event_id.encode()
    head = (dialect.target, host.encode(), len(body), call.forwarded, own, body)
    return b"POST %b HTTP/1.1\r\nhost: %b\r\ncontent-length: %d\r\n%b%b\r\n%b" % head


def agent_headers(engine: Headers) -> Headers:
    """The engine's headers that the agent sees; framing and date are the server's own."""
    return [header for header in engine if header[0] not in _NOT_TO_AGENT]


def retry_after_s(engine: Headers) -> float | None:
    """The seconds that ``retry-after`` asks for; None without one, or with a date."""
    value = header(engine, b"retry-after")
    return float(value) if value.isdigit() and len(value) < 9 else None


def header(headers: Headers, name: bytes) -> bytes:
    """The first value of ``name`` (lower-case), or empty."""
    for key, value in headers:
        if key == name:
            return value
    return b""


def credential(headers: Headers) -> bytes:
    """What the caller shows as ``Authorization``; a key in ``x-api-key``, as Anthropic's SDKs send it, counts as a bearer's."""
    return credential_in(dict(headers))


def credential_in(fields: Mapping[bytes, bytes]) -> bytes:
    """The same out of a mapping."""
    authorization, key = fields.get(b"authorization", b""), fields.get(b"x-api-key", b"")
    return b"Bearer " + key if key and authorization[:7].lower() != b"bearer " else authorization

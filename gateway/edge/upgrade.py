"""Requests that offer another protocol (`Upgrade: h2c`, as Java's HTTP client does with each call): served as HTTP/1.1.

A server may ignore the offer (RFC 9110, 7.8). The parser may not: it takes what follows such a head for the other protocol, body
included. So the head is written anew without the offer, for a fresh parser.
"""

from gateway.edge.heads import encode_lines
from gateway.upstream.connection import Headers

_OFFER = frozenset((b"upgrade", b"http2-settings"))


def without_offer(method: bytes, url: bytes, version: str, headers: Headers) -> bytes:
    """The bytes of a head that offers nothing. Names of ``headers`` are lower-case."""
    kept = [(name, _fewer_tokens(value) if name == b"connection" else value) for name, value in headers if name not in _OFFER]
    return b"%b %b HTTP/%b\r\n%b\r\n" % (method, url, version.encode(), encode_lines(kept))


def _fewer_tokens(value: bytes) -> bytes:
    return b", ".join([token for token in map(bytes.strip, value.split(b",")) if token.lower() not in _OFFER])

"""Heads of answers on the wire."""

from http import HTTPStatus

from gateway.upstream.connection import Headers

CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
LAST_CHUNK = b"0\r\n\r\n"

_STATUS_LINES: dict[int, bytes] = {int(status): b"HTTP/1.1 %d %s\r\n" % (status, status.phrase.encode()) for status in HTTPStatus}


def encode_head(status: int, headers: Headers, own: bytes, length: int | None, *, framed: bool, close: bool) -> bytes:
    """A head up to its empty line; ``own`` are whole lines. ``length`` None: chunked if ``framed``, else up to the close."""
    parts = [_STATUS_LINES.get(status) or b"HTTP/1.1 %d \r\n" % status]
    for name, value in headers:
        parts += (name, b": ", value, b"\r\n")
    parts.append(own)
    if length is not None:
        parts.append(b"content-length: %d\r\n" % length)
    elif framed:
        parts.append(b"transfer-encoding: chunked\r\n")
    parts.append(b"connection: close\r\n\r\n" if close else b"\r\n")
    return b"".join(parts)


def encode_chunk(data: bytes) -> bytes:
    """``data``, at least one byte, as a chunk."""
    return b"%x\r\n%b\r\n" % (len(data), data)

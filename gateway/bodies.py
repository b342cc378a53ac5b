"""Reads a request body: size limit before anything is parsed, slow senders, gzip and deflate.

The HTTP server in front undoes chunked framing and answers Expect.
"""

import asyncio
import zlib

from gateway.answers import Message, Receive, Send, error_headers
from gateway.errors import ClientLeft, Refused
from gateway.headers import header
from gateway.settings import Settings
from gateway.upstream.connection import Headers

_DISCARD_BYTES = 64 << 20
_WINDOW_BITS = {b"gzip": 31, b"x-gzip": 31, b"deflate": 15}


async def read_body(receive: Receive, length: bytes, encoding: bytes, max_bytes: int, timeout_s: float) -> bytes:
    """The body, decompressed. ``length`` and ``encoding`` are the values of Content-Length and Content-Encoding, or empty.

    Raises:
        Refused: 400 (broken compression), 408, 413 or 415. ClientLeft: the connection broke.
    """
    if encoding and encoding.lower() not in _WINDOW_BITS and encoding.lower() != b"identity":
        raise Refused(415, "unsupported_encoding", "Content-Encoding must be gzip, deflate or identity; send the body uncompressed")
    if length and int(length) > max_bytes:
        raise too_large(max_bytes)
    message = await _receive(receive, timeout_s)
    body: bytes = message["body"]
    if message.get("more_body"):
        body = await _read_rest(receive, body, max_bytes, timeout_s)
    if len(body) > max_bytes:
        raise too_large(max_bytes)
    bits = _WINDOW_BITS.get(encoding.lower()) if encoding else None
    return body if bits is None else decompress(body, bits, max_bytes)


async def _read_rest(receive: Receive, first: bytes, max_bytes: int, timeout_s: float) -> bytes:
    parts, size, more = [first], len(first), True
    while more:
        message = await _receive(receive, timeout_s)
        parts.append(message["body"])
        size += len(parts[-1])
        more = message.get("more_body", False)
        if size > max_bytes:
            raise too_large(max_bytes)
    return b"".join(parts)


async def _receive(receive: Receive, timeout_s: float) -> Message:
    try:
        async with asyncio.timeout(timeout_s):
            message = await receive()
    except TimeoutError as error:
        raise Refused(408, "body_timeout", "the request body did not arrive in time; send it again") from error
    if message["type"] == "http.disconnect":
        raise ClientLeft
    return message


async def refuse_body(
    headers: Headers, receive: Receive, send: Send, refused: Refused, body: bytes, extra: Headers, settings: Settings
) -> None:
    """Answer ``refused`` with ``body`` at once, then drop what the client still sends, up to 64 MiB or a few seconds, then close.

    A close with unread bytes would reset the connection before the client has read the answer. A client that waits for
    ``100 Continue`` sends nothing, so there is nothing to drop.
    """
    fields = [*error_headers(refused), *extra, (b"connection", b"close"), (b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": refused.status, "headers": fields})
    await send({"type": "http.response.body", "body": body, "more_body": True})
    if not header(headers, b"expect"):
        await _discard(receive, _DISCARD_BYTES, settings.control_timeout_s)
    await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _discard(receive: Receive, left: int, timeout_s: float) -> None:
    try:
        async with asyncio.timeout(timeout_s):
            while left > 0:
                message = await receive()
                if message["type"] == "http.disconnect" or not message.get("more_body"):
                    return
                left -= len(message["body"])
    except TimeoutError:
        return


def decompress(body: bytes, window_bits: int, max_bytes: int) -> bytes:
    """``body`` inflated, never beyond ``max_bytes``.

    Raises:
        Refused: 400 if broken or cut short, 413 if larger.
    """
    inflate = zlib.decompressobj(window_bits)
    try:
        plain = inflate.decompress(body, max_bytes + 1)
    except zlib.error as error:
        raise Refused(400, "invalid_compression", "the compressed body is damaged; check Content-Encoding") from error
    if len(plain) > max_bytes:
        raise too_large(max_bytes)
    if not inflate.eof:
        raise Refused(400, "invalid_compression", "the compressed body is cut short; check Content-Encoding")
    return plain


def too_large(max_bytes: int) -> Refused:
    """The refusal of a body above ``max_bytes``."""
    return Refused(413, "body_too_large", f"the request body is larger than {max_bytes} bytes; send less, or raise max_body_bytes")

"""A request's body as it arrives: its size is checked before anything is kept, its compression undone at the end."""

import zlib

from gateway.errors import Refused

MAX_PAUSES = 10
"""The longest whole body, in time-outs of a pause between two parts of it."""

_WINDOW_BITS = {b"gzip": 31, b"x-gzip": 31, b"deflate": 15}


class Body:
    """Collects one body. ``length`` and ``encoding`` are the values of Content-Length and Content-Encoding, or empty."""

    __slots__ = ("_encoding", "_max_bytes", "_parts", "_size")

    def __init__(self, length: bytes, encoding: bytes, max_bytes: int) -> None:
        """Raises Refused: 413 or 415, by the headers alone."""
        self._parts: list[bytes] = []
        self._size = 0
        self._max_bytes = max_bytes
        self._encoding = encoding.lower()
        if encoding and self._encoding not in _WINDOW_BITS and self._encoding != b"identity":
            raise Refused(
                415, "unsupported_encoding", "Content-Encoding must be gzip, deflate or identity; send the body uncompressed"
            )
        if length and int(length) > max_bytes:
            raise too_large(max_bytes)

    def add(self, data: bytes) -> None:
        """Keep ``data``.

        Raises:
            Refused: 413.
        """
        self._size += len(data)
        if self._size > self._max_bytes:
            raise too_large(self._max_bytes)
        self._parts.append(data)

    def whole(self) -> bytes:
        """All of it, decompressed.

        Raises:
            Refused: 400 (broken compression) or 413.
        """
        body = self._parts[0] if len(self._parts) == 1 else b"".join(self._parts)
        bits = _WINDOW_BITS.get(self._encoding)
        return body if bits is None else decompress(body, bits, self._max_bytes)


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

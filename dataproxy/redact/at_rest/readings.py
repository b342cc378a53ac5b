"""What bytes on a disk may stand for: compressed data, base64, arrays of token ids, read layer by layer."""

import base64
import re
import zlib
from collections.abc import Iterable, Iterator

import numpy as np
import zstandard
from numpy.typing import NDArray

from dataproxy.redact.tokens import TokenBytes
from dataproxy.store.compression import decompressor_of

_DEPTH = 3
_MOST_BYTES = 256 << 20
_ZSTD = re.compile(rb"\x28\xb5\x2f\xfd")
_ZLIB = re.compile(rb"\x78[\x01\x5e\x9c\xda]|\x1f\x8b\x08")
_BASE64 = re.compile(rb"[A-Za-z0-9+/_\-]{24,}={0,2}")
_NUMBERS = re.compile(rb"[0-9]{1,6}(?:,\s?[0-9]{1,6}){7,}")
_URL_SAFE = bytes.maketrans(b"-_", b"+/")
_LEAST_RUN = 4
_STEP = 4096
_GROUP = 32
"""Characters of base64 for 24 bytes."""
_HEAD = 18
"""The most bytes that the head of a zstd frame has (RFC 8878, 3.1.1.1)."""


def readings(data: bytes, tokens: TokenBytes | None, depth: int = _DEPTH) -> Iterator[tuple[str, bytes]]:
    """``data`` itself and whatever it holds, with the way it was read: ``zstd/tokens`` is an array of ids inside a zstd frame."""
    yield "raw", data
    if tokens is not None:
        yield "tokens", packed(_token_texts(data, tokens))
    if depth:
        for name, inner in (
            ("zstd", packed(_unzstd_all(data))),
            ("zlib", packed(_inflate_all(data))),
            ("base64", _from_base64(data)),
        ):
            if inner:
                yield from (
                    (name if deeper == "raw" else f"{name}/{deeper}", content)
                    for deeper, content in readings(inner, tokens, depth - 1)
                )


def packed(pieces: Iterable[bytes]) -> bytes:
    """Many pieces as one, each at a multiple of 8 bytes and zeros between two, so that arrays in them stay aligned."""
    return b"".join(piece + bytes(16 - len(piece) % 8) for piece in pieces)


def _unzstd_all(data: bytes) -> Iterator[bytes]:
    """Every zstd frame that begins anywhere in ``data``."""
    view = memoryview(data)  # without copies: a database holds a frame in every row
    return (_unzstd(view[match.start() :]) for match in _ZSTD.finditer(data))


def _inflate_all(data: bytes) -> Iterator[bytes]:
    """Every zlib or gzip stream that begins anywhere in ``data``."""
    view = memoryview(data)
    for match in _ZLIB.finditer(data):
        try:
            yield _inflate(view[match.start() :])
        except zlib.error:
            continue


def _inflate(data: memoryview) -> bytes:
    reader, pieces, size = zlib.decompressobj(wbits=47), list[bytes](), 0
    for at in range(0, len(data), _STEP):
        pieces.append(reader.decompress(data[at : at + _STEP]))
        size += len(pieces[-1])
        if reader.eof or size > _MOST_BYTES:
            break
    return b"".join(pieces)


def _unzstd(data: memoryview) -> bytes:
    """What can be read of the frame at the start of ``data``, in small steps so that a torn frame gives its beginning."""
    pieces: list[bytes] = []
    try:
        reader = decompressor_of(bytes(data[:_HEAD])).decompressobj()
        for at in range(0, len(data), _STEP):
            pieces.append(reader.decompress(data[at : at + _STEP]))
            if reader.eof:
                break
    except (zstandard.ZstdError, FileNotFoundError):  # no frame, or one with a dictionary of somebody else
        pass
    return b"".join(pieces)


def _from_base64(data: bytes) -> bytes:
    """Every run of base64 characters, decoded at each of four alignments: letters that do not belong may touch it in front.

    The runs are decoded as one text for speed; each is filled with zeros to whole groups of 24 bytes and followed by one, so that
    they stay apart and aligned as in ``packed``.
    """
    texts = [match[0].rstrip(b"=").translate(_URL_SAFE) for match in _BASE64.finditer(data)]
    shifted = (text[shift:] for text in texts for shift in range(4))
    return base64.b64decode(b"".join(text + b"A" * (_GROUP - len(text) % _GROUP + _GROUP) for text in shifted))


def _token_texts(data: bytes, tokens: TokenBytes) -> Iterator[bytes]:
    """The text of every run of token ids: int32 or int64 at any alignment, or numbers written in a list."""
    for width in (4, 8):
        for shift in range(min(width, len(data))):
            array = np.frombuffer(data, f"<i{width}", count=(len(data) - shift) // width, offset=shift)
            yield from _runs(array, tokens)
    for match in _NUMBERS.finditer(data):
        yield from _runs(np.array([int(number) for number in match[0].split(b",")], np.int64), tokens)


def _runs(array: NDArray[np.signedinteger], tokens: TokenBytes) -> Iterator[bytes]:
    """Texts of the stretches of valid ids. Id 0 breaks a stretch: it is what empty space on a page looks like."""
    valid = np.concatenate(([False], (array > 0) & (array < len(tokens)), [False]))
    edges = np.flatnonzero(valid[1:] != valid[:-1])
    for start, end in zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True):
        if end - start >= _LEAST_RUN:
            yield tokens.decode(array[start:end].astype(np.int32))[0]

"""How contents, bodies and token arrays are packed: zstd with a dictionary that ships with the code.

The dictionary was trained on synthetic text alone (``dictionaries.train``), so no erasure has to reach it. A frame names its
dictionary, which therefore stays in the tree for as long as a store may hold such a frame. Bytes that would not shrink are kept as
they are: no JSON and no array of ours begins with zstd's magic number.
"""

import threading
from functools import cache, lru_cache
from pathlib import Path
from typing import Final

import zstandard

MAGIC: Final = b"\x28\xb5\x2f\xfd"
_DICTIONARIES = Path(__file__).parent / "dictionaries"
_CURRENT: Final = 1795
_LEVEL: Final = 3
_ARRAY_LEVEL: Final = 1
_LEAST: Final = 24
"""Shorter ones cannot shrink: a frame's head alone takes 10 bytes."""
_mine = threading.local()


def compress(data: bytes) -> bytes:
    """``data`` packed, or as it is where that is no longer."""
    return _packed(data, _compressor(_CURRENT))


def compress_array(data: bytes) -> bytes:
    """The same for the buffer of an array, in which a dictionary of words finds nothing."""
    return _packed(data, _compressor(0))


@lru_cache(maxsize=4096)
def compress_flags(data: bytes) -> bytes:
    """The same for versions and flags of tokens: most are one number over and over, and they are nobody's words."""
    return compress_array(data)


def decompress(data: bytes) -> bytes:
    """What ``compress`` was given, now or by an earlier Headrace.

    Raises:
        FileNotFoundError: it was packed with a dictionary that this Headrace does not have.
    """
    if not data.startswith(MAGIC):
        return data
    plain: bytes = decompressor_of(data).decompress(data)
    return plain


def decompressor_of(frame: bytes) -> zstandard.ZstdDecompressor:
    """What opens the zstd frame that ``frame`` begins with.

    Raises:
        ZstdError: it is none. FileNotFoundError: its dictionary is not one of ours.
    """
    return _decompressor(zstandard.get_frame_parameters(frame).dict_id)


def _packed(data: bytes, compressor: zstandard.ZstdCompressor) -> bytes:
    if data.startswith(MAGIC):
        return compressor.compress(data)
    if len(data) < _LEAST:
        return data
    packed = compressor.compress(data)
    return packed if len(packed) < len(data) else data


def _compressor(dictionary: int) -> zstandard.ZstdCompressor:
    """One a thread and dictionary; 0 is none."""
    known: dict[int, zstandard.ZstdCompressor] = _mine.__dict__.setdefault("compressors", {})
    if dictionary not in known:
        level, data = (_LEVEL, _dictionary(dictionary)) if dictionary else (_ARRAY_LEVEL, None)
        known[dictionary] = zstandard.ZstdCompressor(level=level, dict_data=data, write_checksum=False)
    return known[dictionary]


def _decompressor(dictionary: int) -> zstandard.ZstdDecompressor:
    """One a thread and dictionary; 0 is none."""
    known: dict[int, zstandard.ZstdDecompressor] = _mine.__dict__.setdefault("decompressors", {})
    if dictionary not in known:
        known[dictionary] = zstandard.ZstdDecompressor(dict_data=_dictionary(dictionary) if dictionary else None)
    return known[dictionary]


@cache
def _dictionary(number: int) -> zstandard.ZstdCompressionDict:
    dictionary = zstandard.ZstdCompressionDict((_DICTIONARIES / f"{number}.zdict").read_bytes())
    dictionary.precompute_compress(level=_LEVEL)
    return dictionary

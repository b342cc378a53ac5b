"""Token id → bytes, read from a tokenizer.json of the byte-level BPE kind, without the tokenizer itself.

Redaction looks at the bytes behind the exact ids; it never encodes text again.
"""

import hashlib
import json
from functools import cached_property
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dataproxy.redact.errors import InvalidTokenizer, RedactionFailed
from dataproxy.redact.exchange import Ids


class TokenBytes:
    """The bytes of every id. Special tokens have the bytes of their text."""

    def __init__(self, table: list[bytes], fingerprint: str) -> None:
        """``table[id]`` is the bytes of ``id``; ``fingerprint`` names the tokenizer in the store."""
        self._table = table
        self._lengths = np.array([len(entry) for entry in table], np.int64)
        self.fingerprint = fingerprint

    def __len__(self) -> int:
        return len(self._table)

    @classmethod
    def from_file(cls, path: Path) -> "TokenBytes":
        """Read ``tokenizer.json``.

        Raises:
            InvalidTokenizer: not a byte-level BPE.
        """
        data = path.read_bytes()
        try:
            return cls(_table(json.loads(data)), hashlib.sha256(data).hexdigest()[:16])
        except (KeyError, TypeError, ValueError) as error:
            raise InvalidTokenizer(f"{path} is not a byte-level BPE tokenizer: {error!r}") from error

    @cached_property
    def ids_by_bytes(self) -> dict[bytes, int]:
        """Bytes → the lowest id that has them."""
        return {entry: index for index, entry in reversed(list(enumerate(self._table)))}

    def decode(self, ids: Ids) -> tuple[bytes, NDArray[np.int64]]:
        """The bytes of ``ids`` [N] in a row, and where each begins and the last ends: offsets [N + 1].

        Raises:
            RedactionFailed: an id is not in the table.
        """
        numbers = ids.tolist()
        try:
            parts = itemgetter(*numbers)(self._table) if len(numbers) > 1 else [self._table[number] for number in numbers]
            lengths = self._lengths[np.asarray(ids, np.int32).view(np.uint32)]  # so that none below zero counts from the end
        except IndexError:
            raise RedactionFailed("unknown_token") from None
        offsets = np.zeros(len(ids) + 1, np.int64)
        lengths.cumsum(out=offsets[1:])
        return b"".join(parts), offsets


def _table(tokenizer: dict[str, Any]) -> list[bytes]:
    if not _is_byte_level(tokenizer["decoder"]):
        raise ValueError("its decoder is not ByteLevel")
    vocabulary: dict[str, int] = tokenizer["model"]["vocab"]
    added = {entry["id"]: entry["content"].encode() for entry in tokenizer["added_tokens"]}
    table = [b""] * (max([*vocabulary.values(), *added]) + 1)
    alphabet = _alphabet()
    for token, index in vocabulary.items():
        if index not in added:
            table[index] = bytes(alphabet[character] for character in token)
    for index, content in added.items():
        table[index] = content
    return table


def _is_byte_level(decoder: dict[str, Any]) -> bool:
    return decoder["type"] == "ByteLevel" or any(part["type"] == "ByteLevel" for part in decoder.get("decoders", ()))


def _alphabet() -> dict[str, int]:
    """The printable character that stands for each byte in a byte-level vocabulary (GPT-2's table)."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in printable]
    return {chr(byte): byte for byte in printable} | {chr(256 + n): byte for n, byte in enumerate(others)}

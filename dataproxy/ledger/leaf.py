"""A leaf: what a row's place in the log is bound to, as bytes. Pure.

    commitment = HMAC-SHA-256(salt, content)        content: the named parts of a redacted row, see ``dataproxy.ledger.content``
    leaf       = SHA-256(0x00, "headrace leaf v1" 0x00, tenant, index, kind, row key, chain, previous, commitment)

Each field of a leaf is four bytes of length, big-endian, and its bytes; the index is eight bytes, big-endian. ``previous`` is the
hash of the leaf before it in the same chain (a trajectory), 32 zero bytes for the first, and empty outside any chain.
"""

import hmac
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

from dataproxy.ledger.merkle import leaf_hash

FIRST = bytes(32)
"""``previous`` of the first leaf of a chain."""
SALT_SIZE = 16
_HEAD = b"headrace leaf v1\0"
_INDEX_SIZE = (8).to_bytes(4, "big")
_HASH_SIZE = (32).to_bytes(4, "big")


@dataclass(slots=True, frozen=True)
class Leaf:
    """A row about to enter the log. ``position`` is an event's place in the store, None for other rows."""

    tenant: str
    kind: str
    row_key: str
    chain: str
    content: bytes
    position: int | None = None


def part(name: bytes, data: bytes) -> bytes:
    """One named part of a content: its name, 0x00, eight bytes of length, big-endian, and the data."""
    return b"%b\0%b%b" % (name, len(data).to_bytes(8, "big"), data)


def parts_of(content: bytes) -> Iterable[tuple[str, bytes]]:
    """The (name, data) that ``content`` was made of."""
    at = 0
    while at < len(content):
        end = content.index(b"\0", at)
        start = end + 9
        size = int.from_bytes(content[end + 1 : start], "big")
        yield content[at:end].decode(), content[start : start + size]
        at = start + size


def with_position(content: bytes, position: int) -> bytes:
    """``content`` of an event that has ``position`` among its tenant's."""
    return content + part(b"position", str(position).encode())


def commit(salt: bytes, content: bytes) -> bytes:
    """The commitment to ``content``: 32 bytes that say nothing without ``salt``."""
    return hmac.digest(salt, content, "sha256")


def hash_of(tenant: str, index: int, kind: str, row_key: str, chain: str, previous: bytes, commitment: bytes) -> bytes:
    """The leaf's hash in the tree."""
    where = b"%b%b%b%b" % (_framed(tenant), _INDEX_SIZE, index.to_bytes(8, "big"), _framed(kind))
    key, link = row_key.encode(), chain.encode()
    sizes = (len(key).to_bytes(4, "big"), len(link).to_bytes(4, "big"), len(previous).to_bytes(4, "big"), _HASH_SIZE)
    return leaf_hash(
        b"%b%b%b%b%b%b%b%b%b%b" % (_HEAD, where, sizes[0], key, sizes[1], link, sizes[2], previous, sizes[3], commitment)
    )


@lru_cache(maxsize=256)
def _framed(word: str) -> bytes:
    """A field that many leaves share."""
    return len(word.encode()).to_bytes(4, "big") + word.encode()

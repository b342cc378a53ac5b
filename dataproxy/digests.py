"""Keyed digests of a tenant's data. Text and ids never become a plain hash, which could be guessed back.

One key per tenant, derived from the machine's secret; the purpose is part of every digest, so that no two kinds can meet.
"""

import hashlib
import hmac

_SIZE = 16


def tenant_key(secret: bytes, tenant: str) -> bytes:
    """The 32-byte key of ``tenant``."""
    return hmac.digest(secret, b"tenant\0" + tenant.encode(), hashlib.sha256)


class KeyedDigests:
    """Digests (16 bytes) under one tenant's key."""

    def __init__(self, key: bytes) -> None:
        self._key = key

    def of(self, purpose: bytes, data: bytes) -> bytes:
        """The digest of ``data`` for ``purpose`` (at most 16 bytes)."""
        return hashlib.blake2b(data, digest_size=_SIZE, key=self._key, person=purpose).digest()

    def rolling(self, purpose: bytes) -> "hashlib.blake2b":
        """A digest to be fed piece by piece; ``copy().digest()`` gives its value so far."""
        return hashlib.blake2b(digest_size=_SIZE, key=self._key, person=purpose)


def named_session(digests: KeyedDigests, name: str, redacted: str) -> str:
    """The session's id in the store: its name, or a keyed digest of it where redaction found something in it.

    Two people's addresses would both become ``<EMAIL_1>``, and their conversations one.
    """
    return _named(digests, b"session", name, redacted)


def named_group(digests: KeyedDigests, name: str, redacted: str) -> str:
    """The same for a group of sessions."""
    return _named(digests, b"group", name, redacted)


def _named(digests: KeyedDigests, kind: bytes, name: str, redacted: str) -> str:
    return name if name == redacted else f"digest-{digests.of(kind, name.encode()).hex()}"

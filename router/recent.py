"""Which affinity keys a worker served of late, so that a drain can leave them where they are. Of fixed size, shared by processes.

Three generations of a Bloom filter, each for ``IDLE_S`` of wall-clock time: a key is recent if this one or the last one holds it.
A false yes keeps a new key on a draining worker; an update that two processes lose moves a session, which costs a cache.
"""

import time
from collections.abc import Callable
from hashlib import blake2b

IDLE_S = 300.0
_BITS = 1 << 20
_HEAD = 8
_GENERATION_BYTES = _HEAD + _BITS // 8
NUM_BYTES = 3 * _GENERATION_BYTES
"""Size of the buffer that processes may share: zeroes at first."""


class RecentKeys:
    """The filter in ``buffer`` (its own if None), made when the first key comes. ``clock`` gives wall-clock seconds.

    Example:
        >>> recent = RecentKeys(); recent.add(b"key"); b"key" in recent
        True
    """

    def __init__(self, buffer: memoryview | None = None, clock: Callable[[], float] = time.time) -> None:
        self._buffer = buffer
        self._clock = clock
        self._ends_at = 0.0
        self._at = 0

    def add(self, key: bytes) -> None:
        """``key`` is served now."""
        if self._buffer is None:
            self._buffer = memoryview(bytearray(NUM_BYTES))
        now = self._clock()
        if now >= self._ends_at:
            self._begin(int(now / IDLE_S))
        one, other = _bits(key)
        self._buffer[self._at + (one >> 3)] |= 1 << (one & 7)
        self._buffer[self._at + (other >> 3)] |= 1 << (other & 7)

    def __contains__(self, key: bytes) -> bool:
        return any(all(self._has(at, bit) for bit in _bits(key)) for at in self._current())

    @property
    def empty(self) -> bool:
        """Whether no key is recent."""
        return not any(any(self._bytes(at)) for at in self._current())

    def _begin(self, number: int) -> None:
        """Go on to generation ``number``, emptying its place unless another process has."""
        assert self._buffer is not None
        at = number % 3 * _GENERATION_BYTES
        if self._number(at) != number:
            self._buffer[at : at + _GENERATION_BYTES] = number.to_bytes(_HEAD, "little") + bytes(_BITS // 8)
        self._at, self._ends_at = at + _HEAD, (number + 1) * IDLE_S

    def _current(self) -> list[int]:
        now = int(self._clock() / IDLE_S)
        places = [(number % 3 * _GENERATION_BYTES, number) for number in (now, now - 1)]
        return [at for at, number in places if self._buffer is not None and self._number(at) == number]

    def _bytes(self, at: int) -> bytes:
        return bytes(self._buffer[at + _HEAD : at + _GENERATION_BYTES]) if self._buffer is not None else b""

    def _number(self, at: int) -> int:
        return int.from_bytes(self._buffer[at : at + _HEAD], "little") if self._buffer is not None else 0

    def _has(self, at: int, bit: int) -> bool:
        return self._buffer is not None and bool(self._buffer[at + _HEAD + bit // 8] >> bit % 8 & 1)


def _bits(key: bytes) -> tuple[int, int]:
    """Two places for ``key``. An affinity key is a keyed digest of 16 bytes; anything else is hashed first."""
    digest = key if len(key) == 16 else blake2b(key, digest_size=16).digest()
    number = int.from_bytes(digest[:8], "little")
    return number & _BITS - 1, number >> 32 & _BITS - 1

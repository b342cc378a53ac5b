"""Many byte strings sought in one pass. Place: after detection, where every value is looked for in everything else."""

from collections import defaultdict
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

_HEAD = 6
"""Bytes that candidates are recognised by. A shorter needle is sought on its own."""
_FEW = 24
"""Up to this many needles the standard library's search, one needle after another, is faster."""
_BITS = 16
_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)
_MASK = np.uint64((1 << (8 * _HEAD)) - 1)


class Needles:
    """``needles``, ready to be sought. The time of a search grows with the text and with what is found, not with their product."""

    def __init__(self, needles: Sequence[bytes]) -> None:
        """No needle is empty."""
        self._needles = needles
        self._alone: Sequence[int] = range(len(needles))
        self._by_head: dict[bytes, list[int]] = {}
        if len(needles) > _FEW:
            self._by_head = defaultdict(list)
            self._alone = [n for n, needle in enumerate(needles) if len(needle) < _HEAD]
            for n, needle in enumerate(needles):
                if len(needle) >= _HEAD:
                    self._by_head[needle[:_HEAD]].append(n)
        self._table = _table(self._by_head) if self._by_head else None

    def find(self, data: bytes) -> list[tuple[int, int, int]]:
        """(start, end, number of the needle) of each, in no order; occurrences of one needle do not overlap each other."""
        found = [place for n in self._alone if self._needles[n] in data for place in self._find_one(data, n)]
        if self._table is None or len(data) < _HEAD:
            return found
        ends = [0] * len(self._needles)
        for at in _candidates(data, self._table):
            for n in self._by_head.get(data[at : at + _HEAD], ()):
                needle = self._needles[n]
                if at >= ends[n] and data.startswith(needle, at):
                    ends[n] = at + len(needle)
                    found.append((at, ends[n], n))
        return found

    def occur(self, data: bytes) -> bool:
        """Whether any of them is in ``data``."""
        if self._table is None:
            for needle in self._needles:  # noqa: SIM110  a generator costs more than the search
                if needle in data:
                    return True
            return False
        return bool(self.find(data))

    def _find_one(self, data: bytes, n: int) -> list[tuple[int, int, int]]:
        needle, places = self._needles[n], []
        at = data.find(needle)
        while at >= 0:
            places.append((at, at + len(needle), n))
            at = data.find(needle, at + len(needle))
        return places


def _windows(data: bytes) -> NDArray[np.uint64]:
    """[len(data) - _HEAD + 1] uint64: the bytes at each position, as a number."""
    padded = data + bytes(8 - _HEAD)
    count = len(data) - _HEAD + 1
    windows: NDArray[np.uint64] = np.ndarray((count,), "<u8", padded, strides=(1,)) & _MASK
    return windows


def _slots(windows: NDArray[np.uint64]) -> NDArray[np.uint64]:
    return (windows * _MULTIPLIER) >> np.uint64(64 - _BITS)


def _table(heads: dict[bytes, list[int]]) -> NDArray[np.bool_]:
    """[2 ** _BITS] bool: where a hash of one of ``heads`` falls."""
    table = np.zeros(1 << _BITS, np.bool_)
    table[_slots(np.array([int.from_bytes(head, "little") for head in heads], np.uint64))] = True
    return table


def _candidates(data: bytes, table: NDArray[np.bool_]) -> list[int]:
    found: list[int] = np.flatnonzero(table[_slots(_windows(data))]).tolist()
    return found

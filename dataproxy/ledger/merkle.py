"""The Merkle tree of RFC 9162, section 2.1: roots, proofs, and a frontier that grows without the tree. Pure; SHA-256 throughout.

A frontier is the roots of the perfect subtrees that a tree of n leaves falls into, largest first: one for each bit of n.
"""

import hashlib
from collections.abc import Callable, Sequence

HASH_SIZE = 32
EMPTY_ROOT = hashlib.sha256().digest()


def leaf_hash(data: bytes) -> bytes:
    """SHA-256 of 0x00 and ``data``."""
    return hashlib.sha256(b"\0" + data).digest()


def node_hash(left: bytes, right: bytes) -> bytes:
    """SHA-256 of 0x01 and both children."""
    return hashlib.sha256(b"\1" + left + right).digest()


class Frontier:
    """The right edge of a growing tree."""

    def __init__(self, size: int = 0, nodes: Sequence[bytes] = ()) -> None:
        self.size = size
        self._nodes = list(nodes)

    @classmethod
    def decode(cls, size: int, data: bytes) -> "Frontier":
        """From ``size`` and what ``encode`` gave.

        Raises:
            ValueError: they don't belong together.
        """
        if len(data) != size.bit_count() * HASH_SIZE:
            raise ValueError(f"a frontier of {size} leaves has {size.bit_count()} nodes, not {len(data) / HASH_SIZE}")
        return cls(size, [data[at : at + HASH_SIZE] for at in range(0, len(data), HASH_SIZE)])

    def encode(self) -> bytes:
        """Its nodes, largest first."""
        return b"".join(self._nodes)

    def push(self, leaf: bytes) -> None:
        """Append a leaf's hash."""
        node, size = leaf, self.size
        while size & 1:
            node = node_hash(self._nodes.pop(), node)
            size >>= 1
        self._nodes.append(node)
        self.size += 1

    def root(self) -> bytes:
        """The root of the tree so far."""
        if not self._nodes:
            return EMPTY_ROOT
        root = self._nodes[-1]
        for node in reversed(self._nodes[:-1]):
            root = node_hash(node, root)
        return root


class Tree:
    """A whole tree in memory: every level of it. ``leaves`` are leaf hashes; 64 bytes of hashes a leaf."""

    def __init__(self, leaves: Sequence[bytes]) -> None:
        self._levels = [list(leaves)]
        while len(self._levels[-1]) > 1:
            below = self._levels[-1]
            self._levels.append([node_hash(below[i], below[i + 1]) for i in range(0, len(below) - 1, 2)])

    @property
    def size(self) -> int:
        """Leaves."""
        return len(self._levels[0])

    def root(self, size: int | None = None) -> bytes:
        """The root of the first ``size`` leaves (None: of all)."""
        end = self.size if size is None else size
        return self._range(0, end) if end else EMPTY_ROOT

    def part(self, start: int, end: int) -> bytes:
        """The root of leaves ``start`` to ``end``, where those are a subtree of it."""
        return self._range(start, end)

    def inclusion(self, index: int, size: int) -> list[bytes]:
        """The path from leaf ``index`` to the root of the first ``size`` leaves (section 2.1.3.1)."""
        return self._path(index, 0, size)

    def consistency(self, old: int, new: int) -> list[bytes]:
        """The proof that the first ``old`` leaves are a prefix of the first ``new`` (section 2.1.4.1)."""
        return consistency_path(self._range, old, new)

    def _range(self, start: int, end: int) -> bytes:
        size = end - start
        if size & (size - 1) == 0 and start % size == 0:
            return self._levels[size.bit_length() - 1][start // size]
        split = start + _split(size)
        return node_hash(self._range(start, split), self._range(split, end))

    def _path(self, index: int, start: int, end: int) -> list[bytes]:
        if end - start == 1:
            return []
        split = start + _split(end - start)
        if index < split:
            return [*self._path(index, start, split), self._range(split, end)]
        return [*self._path(index, split, end), self._range(start, split)]


def consistency_path(part: Callable[[int, int], bytes], old: int, new: int) -> list[bytes]:
    """The proof that a tree of ``old`` leaves is a prefix of one of ``new``; ``part`` gives the root of a subtree of it."""
    return _subproof(part, old, 0, new, True) if 0 < old < new else []


def _subproof(part: Callable[[int, int], bytes], old: int, start: int, end: int, known: bool) -> list[bytes]:
    if old == end:
        return [] if known else [part(start, end)]
    split = start + _split(end - start)
    if old <= split:
        return [*_subproof(part, old, start, split, known), part(split, end)]
    return [*_subproof(part, old, split, end, False), part(start, split)]


def _split(size: int) -> int:
    """The largest power of two below ``size``."""
    return 1 << ((size - 1).bit_length() - 1)


def root_from_inclusion(index: int, size: int, leaf: bytes, path: Sequence[bytes]) -> bytes | None:
    """The root that ``path`` leads to from ``leaf`` (section 2.1.3.2); None if it is no path of such a tree."""
    if not 0 <= index < size:
        return None
    at, last, node = index, size - 1, leaf
    for sibling in path:
        if last == 0:
            return None
        if at & 1 or at == last:
            node = node_hash(sibling, node)
            while not at & 1 and at:
                at, last = at >> 1, last >> 1
        else:
            node = node_hash(node, sibling)
        at, last = at >> 1, last >> 1
    return node if last == 0 else None


def is_consistent(old: int, new: int, old_root: bytes, new_root: bytes, proof: Sequence[bytes]) -> bool:
    """Whether ``proof`` shows that the tree of ``old`` leaves is a prefix of the one of ``new`` (section 2.1.4.2)."""
    if old == new:
        return not proof and old_root == new_root
    if not 0 < old < new or not proof:
        return False
    nodes = [old_root, *proof] if old & (old - 1) == 0 else list(proof)
    at, last = old - 1, new - 1
    while at & 1:
        at, last = at >> 1, last >> 1
    left = right = nodes[0]
    for node in nodes[1:]:
        if last == 0:
            return False
        if at & 1 or at == last:
            left, right = node_hash(node, left), node_hash(node, right)
            while not at & 1 and at:
                at, last = at >> 1, last >> 1
        else:
            right = node_hash(right, node)
        at, last = at >> 1, last >> 1
    return last == 0 and left == old_root and right == new_root

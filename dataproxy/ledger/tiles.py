"""The path from one leaf to a signed root, without reading the whole log: roots of complete runs of 1,024 leaves are kept in files.

A cache and nothing more: it proves nothing by itself, is made anew from the leaves where it is missing, and forgotten by whoever
finds a path that does not reach the signed root. One file a log, only appended to; no file is as good as an old one.
"""

import threading
from collections.abc import Sequence
from pathlib import Path

from sqlalchemy import Connection, select

from dataproxy.ledger.merkle import EMPTY_ROOT, HASH_SIZE, Tree, consistency_path, node_hash
from dataproxy.store.schema import log_leaf

TILE = 1024
"""Leaves under one kept root."""
_MOST_TREES = 64
"""Runs of which every hash is at hand."""


class Tiles:
    """The kept roots of every log, in ``directory``. Any thread."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._roots: dict[str, list[bytes]] = {}
        self._lock = threading.Lock()

    def roots(self, connection: Connection, tenant: str, size: int) -> list[bytes]:
        """Roots of the first ``size // TILE`` runs of ``tenant``'s log; those that are not kept yet are made from its leaves."""
        with self._lock:
            known = self._roots.setdefault(tenant, self._read(tenant))
            made = [_root_of(connection, tenant, number) for number in range(len(known), size // TILE)]
            if made:
                known += made
                self._append(tenant, made)
            return known[: size // TILE]

    def forget(self, tenant: str) -> None:
        """Make them anew at the next call."""
        with self._lock:
            self._roots.pop(tenant, None)
            self._file(tenant).unlink(missing_ok=True)

    def _file(self, tenant: str) -> Path:
        return self._directory / (tenant.encode().hex() or "operator")

    def _read(self, tenant: str) -> list[bytes]:
        data = self._file(tenant).read_bytes() if self._file(tenant).exists() else b""
        return [data[at : at + HASH_SIZE] for at in range(0, len(data) - HASH_SIZE + 1, HASH_SIZE)]

    def _append(self, tenant: str, made: Sequence[bytes]) -> None:
        self._directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        with self._file(tenant).open("ab") as file:
            file.truncate(file.tell() // HASH_SIZE * HASH_SIZE)  # a torn end
            file.write(b"".join(made))


class TiledTree:
    """The tree of the first ``size`` leaves of one log, from its kept ``roots`` and the leaves of the runs that are asked about."""

    def __init__(self, connection: Connection, tenant: str, roots: Sequence[bytes], size: int) -> None:
        self._connection = connection
        self._tenant = tenant
        self._roots = roots
        self._size = size
        self._nodes: dict[tuple[int, int], bytes] = {}
        self._trees: dict[int, Tree] = {}

    def inclusion(self, index: int) -> list[bytes]:
        """The path from leaf ``index`` to the root (RFC 9162, section 2.1.3.1)."""
        return self._path(index, 0, self._size)

    def root(self) -> bytes:
        """Of all its leaves."""
        return self._range(0, self._size) if self._size else EMPTY_ROOT

    def consistency(self, old: int, new: int) -> list[bytes]:
        """The proof that the first ``old`` leaves are a prefix of the first ``new`` (section 2.1.4.1), both at most all."""
        return consistency_path(self._range, old, new)

    def _path(self, index: int, start: int, end: int) -> list[bytes]:
        if end - start == 1:
            return []
        middle = start + _split(end - start)
        if index < middle:
            return [*self._path(index, start, middle), self._range(middle, end)]
        return [*self._path(index, middle, end), self._range(start, middle)]

    def _range(self, start: int, end: int) -> bytes:
        """The root of leaves ``start`` to ``end``, a subtree of the whole."""
        found = self._nodes.get((start, end))
        if found is None:
            found = self._nodes[start, end] = self._made(start, end)
        return found

    def _made(self, start: int, end: int) -> bytes:
        number, first = start // TILE, start % TILE
        if end - start == TILE and first == 0:
            return self._roots[number]
        if first + end - start <= TILE:
            return self._tree(number).part(first, first + end - start)
        middle = start + _split(end - start)
        return node_hash(self._range(start, middle), self._range(middle, end))

    def _tree(self, number: int) -> Tree:
        if number not in self._trees:
            if len(self._trees) >= _MOST_TREES:
                self._trees.pop(next(iter(self._trees)))
            self._trees[number] = Tree(_leaves(self._connection, self._tenant, number))
        return self._trees[number]


def _root_of(connection: Connection, tenant: str, number: int) -> bytes:
    return Tree(_leaves(connection, tenant, number)).root()


def _leaves(connection: Connection, tenant: str, number: int) -> list[bytes]:
    where = (log_leaf.c.tenant == tenant, log_leaf.c.leaf_index >= number * TILE, log_leaf.c.leaf_index < (number + 1) * TILE)
    return list(connection.execute(select(log_leaf.c.leaf_hash).where(*where).order_by(log_leaf.c.leaf_index)).scalars())


def _split(size: int) -> int:
    """The largest power of two below ``size``."""
    return 1 << (size - 1).bit_length() - 1

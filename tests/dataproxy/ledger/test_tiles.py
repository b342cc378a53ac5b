"""Paths by kept roots are the paths of the whole tree; what is kept is made anew where it is missing or wrong."""

import hashlib
from pathlib import Path

import pytest
from sqlalchemy import create_engine

from dataproxy.ledger import tiles as tiles_module
from dataproxy.ledger.merkle import Tree, root_from_inclusion
from dataproxy.ledger.tiles import TiledTree, Tiles
from dataproxy.store.schema import log_leaf

TILE = 4


@pytest.fixture
def connection():  # type: ignore[no-untyped-def]
    engine = create_engine("sqlite://")
    log_leaf.create(engine)
    with engine.begin() as made:
        yield made
    engine.dispose()


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tiles_module, "TILE", TILE)


def fill(connection, tenant: str, start: int, end: int) -> list[bytes]:  # type: ignore[no-untyped-def]
    hashes = [hashlib.sha256(f"{tenant}{i}".encode()).digest() for i in range(end)]
    for i in range(start, end):
        named = {"tenant": tenant, "leaf_index": i, "kind": "k", "row_key": str(i), "chain": "", "previous": b"", "commitment": b""}
        connection.execute(log_leaf.insert().values(named | {"leaf_hash": hashes[i]}))
    return hashes


def test_every_path_is_that_of_the_whole_tree(connection, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    hashes, tiles = fill(connection, "t", 0, 41), Tiles(tmp_path)
    for size in range(1, 42):
        whole = Tree(hashes[:size])
        tree = TiledTree(connection, "t", tiles.roots(connection, "t", size), size)
        for index in range(size):
            assert tree.inclusion(index) == whole.inclusion(index, size)


def test_a_log_that_grows_reads_only_what_is_new(connection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:  # type: ignore[no-untyped-def]
    read: list[int] = []
    leaves = tiles_module._leaves
    monkeypatch.setattr(tiles_module, "_leaves", lambda c, t, number: read.append(number) or leaves(c, t, number))
    tiles = Tiles(tmp_path)
    fill(connection, "t", 0, 10)
    tiles.roots(connection, "t", 10)
    fill(connection, "t", 10, 18)
    assert len(tiles.roots(connection, "t", 18)) == 4 and read == [0, 1, 2, 3]
    assert Tiles(tmp_path).roots(connection, "t", 18) == tiles.roots(connection, "t", 18) and len(read) == 4


def test_what_is_kept_can_be_forgotten_and_a_torn_end_is_written_again(connection, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    hashes = fill(connection, "t", 0, 16)
    right = Tiles(tmp_path).roots(connection, "t", 8)
    file = next(tmp_path.iterdir())
    with file.open("ab") as opened:
        opened.write(b"torn")
    assert Tiles(tmp_path).roots(connection, "t", 16)[:2] == right
    assert file.stat().st_size == 4 * 32
    file.write_bytes(bytes(64))
    wrong = Tiles(tmp_path)
    tree = TiledTree(connection, "t", wrong.roots(connection, "t", 16), 16)
    assert root_from_inclusion(9, 16, hashes[9], tree.inclusion(9)) != Tree(hashes).root()
    wrong.forget("t")
    tree = TiledTree(connection, "t", wrong.roots(connection, "t", 16), 16)
    assert root_from_inclusion(9, 16, hashes[9], tree.inclusion(9)) == Tree(hashes).root()

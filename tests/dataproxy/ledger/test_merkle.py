"""The tree against the vectors of RFC 6962's reference implementation, and its proofs against every tree of up to 40 leaves."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dataproxy.ledger.merkle import EMPTY_ROOT, Frontier, Tree, is_consistent, leaf_hash, root_from_inclusion

INPUTS = ("", "00", "10", "2021", "3031", "40414243", "5051525354555657", "606162636465666768696a6b6c6d6e6f")
ROOTS = (
    "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
    "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
    "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77",
    "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
    "4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4",
    "76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef",
    "ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c",
    "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328",
)
LEAVES = [leaf_hash(bytes.fromhex(data)) for data in INPUTS]
EMPTY = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"


def test_roots_are_those_of_the_reference() -> None:
    assert EMPTY_ROOT.hex() == EMPTY == Tree([]).root().hex() == Frontier().root().hex()
    frontier = Frontier()
    for size, root in enumerate(ROOTS, 1):
        frontier.push(LEAVES[size - 1])
        assert Tree(LEAVES).root(size).hex() == frontier.root().hex() == root


def test_proofs_are_those_of_the_reference() -> None:
    tree = Tree(LEAVES)
    assert [node.hex() for node in tree.inclusion(5, 8)] == [
        "bc1a0643b12e4d2d7c77918f44e0f4f79a838b6cf9ec5b5c283e1f4d88599e6b",
        "ca854ea128ed050b41b35ffc1b87b8eb2bde461e9e3b5596ece6b9d5975a0ae0",
        "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
    ]
    assert [node.hex() for node in tree.consistency(6, 8)] == [
        "0ebc5d3437fbe2db158b9f126a1d118e308181031d0a949f8dededebc558ef6a",
        "ca854ea128ed050b41b35ffc1b87b8eb2bde461e9e3b5596ece6b9d5975a0ae0",
        "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
    ]


@pytest.mark.parametrize("size", range(1, 41))
def test_every_leaf_of_every_small_tree_is_proven_and_no_other(size: int) -> None:
    leaves = [leaf_hash(bytes([i])) for i in range(size)]
    tree = Tree(leaves)
    for index in range(size):
        path = tree.inclusion(index, size)
        assert root_from_inclusion(index, size, leaves[index], path) == tree.root()
        assert root_from_inclusion((index + 1) % size, size, leaves[index], path) != tree.root() or size == 1
        assert root_from_inclusion(index, size, leaves[index], [*path, b"\0" * 32]) is None


@pytest.mark.parametrize("new", range(1, 41))
def test_every_prefix_of_every_small_tree_is_consistent_with_it_and_no_other_is(new: int) -> None:
    leaves = [leaf_hash(bytes([i])) for i in range(new)]
    tree = Tree(leaves)
    for old in range(1, new + 1):
        proof = tree.consistency(old, new)
        assert is_consistent(old, new, tree.root(old), tree.root(new), proof)
        forged = Tree([*leaves[: old - 1], leaf_hash(b"forged")]).root()
        assert not is_consistent(old, new, forged, tree.root(new), proof)


@given(st.integers(0, 300), st.integers(0, 300))
def test_a_frontier_goes_on_where_it_was_left(first: int, more: int) -> None:
    leaves = [leaf_hash(i.to_bytes(4, "big")) for i in range(first + more)]
    frontier = Frontier()
    for leaf in leaves[:first]:
        frontier.push(leaf)
    again = Frontier.decode(first, frontier.encode())
    for leaf in leaves[first:]:
        again.push(leaf)
    assert again.root() == Tree(leaves).root()


def test_a_frontier_that_does_not_fit_its_size_is_refused() -> None:
    with pytest.raises(ValueError, match="3 leaves has 2 nodes"):
        Frontier.decode(3, b"\0" * 32)

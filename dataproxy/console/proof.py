"""What the log says of one trajectory: its leaves, their paths to the last signed checkpoint, and whether each row still fits."""

from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Row, select

from dataproxy.ledger.errors import NoteInvalid
from dataproxy.ledger.leaf import commit, hash_of
from dataproxy.ledger.log import read_head
from dataproxy.ledger.merkle import Tree, root_from_inclusion
from dataproxy.ledger.notes import NoteVerifier
from dataproxy.ledger.stored import stored_contents
from dataproxy.store.schema import checkpoint, log_leaf, log_salt, tombstone

MOST_LEAVES = 200


@dataclass(slots=True, frozen=True)
class Proven:
    """One leaf. ``state``: proven, waiting (no checkpoint covers it yet), erased, changed, or not in the tree."""

    index: int
    kind: str
    row_key: str
    leaf_hash: str
    path: list[str]
    state: str


@dataclass(slots=True, frozen=True)
class Proof:
    """``note`` is the checkpoint's text; ``signed``: this log's key signed it. ``more`` leaves are not shown."""

    note: str
    size: int
    cut_us: int | None
    signed: bool
    leaves: list[Proven]
    more: bool


def proof_of(connection: Connection, tenant: str, trajectory_id: str, verifier: NoteVerifier) -> Proof:
    """The proof of ``trajectory_id``, whose tenant is ``tenant``: it reads the hash of every leaf of the tenant."""
    chain = (log_leaf.c.tenant == tenant, log_leaf.c.chain == trajectory_id)
    leaves = connection.execute(select(log_leaf).where(*chain).order_by(log_leaf.c.leaf_index).limit(MOST_LEAVES + 1)).all()
    last = select(checkpoint).where(checkpoint.c.tenant == tenant).order_by(checkpoint.c.size.desc()).limit(1)
    note = connection.execute(last).first()
    size = note.size if note is not None else 0
    hashes = select(log_leaf.c.leaf_hash).where(log_leaf.c.tenant == tenant, log_leaf.c.leaf_index < size)
    tree = Tree(list(connection.execute(hashes.order_by(log_leaf.c.leaf_index)).scalars()))
    root = _signed_root(note.note, size, verifier) if note is not None else None
    states = _rows_fit(connection, tenant, leaves[:MOST_LEAVES])
    shown = []
    for leaf in leaves[:MOST_LEAVES]:
        covered = leaf.leaf_index < size
        path = tree.inclusion(leaf.leaf_index, size) if covered else []
        state = states[leaf.leaf_index]
        if state == "fits" or state == "erased":
            reached = root_from_inclusion(leaf.leaf_index, size, _hash(tenant, leaf), path) if covered else None
            state = "waiting" if not covered else "not in the tree" if root is None or reached != root else state
        shown.append(
            Proven(leaf.leaf_index, leaf.kind, leaf.row_key, leaf.leaf_hash.hex(), [node.hex() for node in path], _said(state))
        )
    text, cut_us = (note.note, note.cut_us) if note is not None else ("", None)
    return Proof(text, size, cut_us, root is not None, shown, len(leaves) > MOST_LEAVES)


def _said(state: str) -> str:
    return "proven" if state == "fits" else state


def _signed_root(note: str, size: int, verifier: NoteVerifier) -> bytes | None:
    try:
        opened = verifier.open(note)
    except NoteInvalid:
        return None
    return opened.root if opened.size == size else None


def _hash(tenant: str, leaf: Row[Any]) -> bytes:
    return hash_of(tenant, leaf.leaf_index, leaf.kind, leaf.row_key, leaf.chain, leaf.previous, leaf.commitment)


def _rows_fit(connection: Connection, tenant: str, leaves: list[Row[Any]] | Any) -> dict[int, str]:
    """Leaf index → fits, changed or erased."""
    indexes = [leaf.leaf_index for leaf in leaves]
    head = read_head(connection, tenant)
    base = head.base_position if head is not None else 0
    salted = select(log_salt.c.leaf_index, log_salt.c.salt).where(log_salt.c.tenant == tenant, log_salt.c.leaf_index.in_(indexes))
    salts = {row.leaf_index: row.salt for row in connection.execute(salted)}
    buried = select(tombstone.c.leaf_index).where(tombstone.c.tenant == tenant, tombstone.c.leaf_index.in_(indexes))
    erased = set(connection.execute(buried).scalars())
    contents: dict[tuple[str, str], bytes] = {}
    for kind in {leaf.kind for leaf in leaves}:
        keys = [leaf.row_key for leaf in leaves if leaf.kind == kind]
        contents |= {(kind, key): data for key, data in stored_contents(connection, tenant, kind, keys, base).items()}
    states = {}
    for leaf in leaves:
        data, salt = contents.get((leaf.kind, leaf.row_key)), salts.get(leaf.leaf_index)
        fits = data is not None and salt is not None and commit(salt, data) == leaf.commitment
        states[leaf.leaf_index] = "erased" if leaf.leaf_index in erased else "fits" if fits else "changed"
    return states

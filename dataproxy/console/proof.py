"""What the log says of one trajectory: its leaves, their paths to the last signed checkpoint, and whether each row still fits."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Row, select, text

from dataproxy.ledger.checkpoints import Checkpoints
from dataproxy.ledger.erased import erasures_of
from dataproxy.ledger.errors import NoteInvalid
from dataproxy.ledger.leaf import hash_of
from dataproxy.ledger.log import read_head
from dataproxy.ledger.merkle import root_from_inclusion
from dataproxy.ledger.notes import NoteVerifier
from dataproxy.ledger.stored import stored_contents
from dataproxy.ledger.tiles import TiledTree, Tiles
from dataproxy.ledger.verify import row_fault
from dataproxy.store.schema import checkpoint, log_head, log_leaf, log_salt, trajectory

MOST_LEAVES = 200


@dataclass(slots=True, frozen=True)
class Proven:
    """One leaf. ``state``: proven, waiting (no checkpoint covers it yet), erased, missing, changed, or not in the tree.

    ``why``: what is wrong with its row, in the words of the audit; "" if nothing.
    """

    index: int
    kind: str
    row_key: str
    leaf_hash: str
    path: list[str]
    state: str
    why: str


@dataclass(slots=True, frozen=True)
class Proof:
    """``note`` is the checkpoint's text; ``signed``: this log's key signed it. ``more`` leaves are not shown."""

    note: str
    size: int
    cut_us: int | None
    signed: bool
    leaves: list[Proven]
    more: bool


def proof_of(connection: Connection, tenant: str, trajectory_id: str, checkpoints: Checkpoints) -> Proof:
    """The proof of ``trajectory_id``, whose tenant is ``tenant``: of its first leaves, by the last checkpoint that was cut."""
    found = _leaves(connection, tenant, trajectory_id, MOST_LEAVES + 1)
    last = select(checkpoint).where(checkpoint.c.tenant == tenant).order_by(checkpoint.c.size.desc()).limit(1)
    note = connection.execute(last).first()
    leaves, size = found[:MOST_LEAVES], note.size if note is not None else 0
    root = _signed_root(note.note, size, checkpoints.signer.verifier) if note is not None else None
    paths = _paths(connection, tenant, leaves, size, root, checkpoints.tiles)
    states = _rows_fit(connection, tenant, leaves)
    shown = []
    for leaf in leaves:
        path, (state, why) = paths.get(leaf.leaf_index), states[leaf.leaf_index]
        if not why and path is None:
            state = "waiting" if leaf.leaf_index >= size else "not in the tree"
        hexed = [node.hex() for node in path or ()]
        shown.append(Proven(leaf.leaf_index, leaf.kind, leaf.row_key, leaf.leaf_hash.hex(), hexed, state, why))
    written, cut_us = (note.note, note.cut_us) if note is not None else ("", None)
    return Proof(written, size, cut_us, root is not None, shown, len(found) > MOST_LEAVES)


def _leaves(connection: Connection, tenant: str, trajectory_id: str, limit: int) -> Sequence[Row[Any]]:
    """In two steps, not in one: for whole leaves SQLite would go through all of the tenant."""
    chain = (log_leaf.c.tenant == tenant, log_leaf.c.chain == trajectory_id, text("chain <> ''"))  # as its index says
    indexes = connection.execute(select(log_leaf.c.leaf_index).where(*chain).order_by(log_leaf.c.leaf_index).limit(limit)).scalars()
    whole = select(log_leaf).where(log_leaf.c.tenant == tenant, log_leaf.c.leaf_index.in_(list(indexes)))
    return connection.execute(whole.order_by(log_leaf.c.leaf_index)).all()


def owner_of(connection: Connection, owner: str | None, trajectory_id: str) -> str | None:
    """The tenant of a trajectory as its row says; where that is gone, as its leaves say. None: there never was one."""
    query = select(trajectory.c.tenant).where(trajectory.c.trajectory_id == trajectory_id).order_by(trajectory.c.tenant)
    found = connection.execute(query if owner is None else query.where(trajectory.c.tenant == owner)).scalar()
    if found is not None:
        return str(found)
    owners = [owner] if owner is not None else connection.execute(select(log_head.c.tenant)).scalars().all()
    leaf = (log_leaf.c.tenant.in_(owners), log_leaf.c.chain == trajectory_id, text("chain <> ''"))  # as its index says
    found = connection.execute(select(log_leaf.c.tenant).where(*leaf).limit(1)).scalar()
    return None if found is None else str(found)


def _paths(
    connection: Connection, tenant: str, leaves: Sequence[Row[Any]], size: int, root: bytes | None, tiles: Tiles
) -> dict[int, list[bytes]]:
    """Leaf index → its path, of those leaves whose path reaches ``root``. Kept tiles that lead elsewhere are made anew, once."""
    covered = [leaf for leaf in leaves if leaf.leaf_index < size]
    reaching: dict[int, list[bytes]] = {}
    for anew in (False, True):
        if anew:
            tiles.forget(tenant)
        tree = TiledTree(connection, tenant, tiles.roots(connection, tenant, size), size)
        for leaf in covered:
            path = tree.inclusion(leaf.leaf_index)
            if root is not None and root_from_inclusion(leaf.leaf_index, size, _hash(tenant, leaf), path) == root:
                reaching[leaf.leaf_index] = path
        if root is None or len(reaching) == len(covered):
            break
    return reaching


def _signed_root(note: str, size: int, verifier: NoteVerifier) -> bytes | None:
    try:
        opened = verifier.open(note)
    except NoteInvalid:
        return None
    return opened.root if opened.size == size else None


def _hash(tenant: str, leaf: Row[Any]) -> bytes:
    return hash_of(tenant, leaf.leaf_index, leaf.kind, leaf.row_key, leaf.chain, leaf.previous, leaf.commitment)


def _rows_fit(connection: Connection, tenant: str, leaves: Sequence[Row[Any]]) -> dict[int, tuple[str, str]]:
    """Leaf index → (proven, missing, changed or erased; what is wrong, as the audit says it)."""
    indexes = [leaf.leaf_index for leaf in leaves]
    head = read_head(connection, tenant)
    base = head.base_position if head is not None else 0
    salted = select(log_salt.c.leaf_index, log_salt.c.salt).where(log_salt.c.tenant == tenant, log_salt.c.leaf_index.in_(indexes))
    salts = {row.leaf_index: row.salt for row in connection.execute(salted)}
    erased = erasures_of(connection, tenant, leaves)
    contents: dict[tuple[str, str], bytes] = {}
    for kind in {leaf.kind for leaf in leaves}:
        keys = [leaf.row_key for leaf in leaves if leaf.kind == kind]
        contents |= {(kind, key): data for key, data in stored_contents(connection, tenant, kind, keys, base).items()}
    states = {}
    for leaf in leaves:
        data, is_erased = contents.get((leaf.kind, leaf.row_key)), leaf.leaf_index in erased
        why = row_fault(leaf, salts.get(leaf.leaf_index), data, is_erased)
        good = "erased" if is_erased else "proven"
        bad = "missing" if data is None and not is_erased else "changed"
        states[leaf.leaf_index] = (bad if why else good, why)
    return states

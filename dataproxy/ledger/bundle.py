"""Evidence: rows with their proofs, the checkpoints, who read, the public key, and a program that checks it all without us.

What a bundle shows is redacted, and it holds the salts of the leaves in it: whoever has the rows may know what they were bound to.
"""

import base64
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import msgspec
from sqlalchemy import Connection, Row, or_, select

from dataproxy.ledger.cosignatures import lines_of
from dataproxy.ledger.erased import erasure_contents
from dataproxy.ledger.leaf import parts_of
from dataproxy.ledger.log import read_head
from dataproxy.ledger.merkle import Tree
from dataproxy.ledger.notes import NoteVerifier
from dataproxy.ledger.stored import stored_contents
from dataproxy.store.schema import access_log, checkpoint, log_leaf, log_salt, tombstone

_CHUNK = 200
_ALWAYS = ("access_log", "consent", "erasure", "legal_hold", "retention_policy")
_PROGRAM = Path(__file__).parent / "evidence" / "verify.py"
_README = """Evidence of what Headrace recorded for one tenant, redacted.

  python verify.py         checks everything in this directory; needs Python 3.11 and the package `cryptography`

events.jsonl, access.jsonl, others.jsonl   a row a line: what it holds, its salt, and the path from its leaf to the last checkpoint
checkpoints.jsonl                          every signed checkpoint of the log, each proven to continue the one before, with the
                                           signatures of witnesses: python verify.py --witness KEY demands one of them
ledger.pub                                 the key that signed them: compare it with the one that you were given by other means

A row that was erased has no parts and no salt, and names its erasure. A text that an event names and does not hold was stored first
by an event that is not in this bundle.
"""


def write_bundle(
    connection: Connection, tenant: str, trajectories: Sequence[str] | None, verifier: NoteVerifier, file: BinaryIO | Any
) -> int:
    """Write the zip of ``trajectories`` of ``tenant`` (None: of all there is) to ``file``; gives the number of leaves in it."""
    hashes = select(log_leaf.c.leaf_hash).where(log_leaf.c.tenant == tenant).order_by(log_leaf.c.leaf_index)
    tree = Tree(list(connection.execute(hashes).scalars()))
    notes = connection.execute(select(checkpoint).where(checkpoint.c.tenant == tenant).order_by(checkpoint.c.size)).all()
    size = notes[-1].size if notes else 0
    lines: dict[str, list[bytes]] = {"events.jsonl": [], "access.jsonl": [], "others.jsonl": []}
    readers = set(connection.execute(select(access_log.c.event_id).where(access_log.c.tenant == tenant)).scalars())
    num = 0
    for leaves in _pages(connection, tenant, trajectories, readers, size):
        for leaf, line in zip(leaves, _lines(connection, tenant, leaves, tree, size), strict=True):
            is_access = leaf.row_key in readers
            place = "access.jsonl" if is_access else "events.jsonl" if leaf.kind == "event" else "others.jsonl"
            lines[place].append(msgspec.json.encode(line))
            num += 1
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as bundle:
        for name, encoded in lines.items():
            bundle.writestr(name, b"".join(line + b"\n" for line in encoded))
        bundle.writestr("checkpoints.jsonl", b"".join(_checkpoints(notes, tree, lines_of(connection, tenant))))
        bundle.writestr("ledger.pub", verifier.key_line() + "\n")
        bundle.writestr("verify.py", _PROGRAM.read_bytes())
        bundle.writestr("README.txt", _README)
        bundle.writestr("tenant.txt", tenant + "\n")
    return num


def _pages(
    connection: Connection, tenant: str, trajectories: Sequence[str] | None, readers: set[str], size: int
) -> Iterator[list[Row[tuple[Any, ...]]]]:
    """The leaves to show, in order."""
    query = select(log_leaf).where(log_leaf.c.tenant == tenant, log_leaf.c.leaf_index < size).order_by(log_leaf.c.leaf_index)
    if trajectories is not None:
        access = select(access_log.c.event_id).where(access_log.c.tenant == tenant)
        shown = or_(log_leaf.c.chain.in_(trajectories), log_leaf.c.kind.in_(_ALWAYS), log_leaf.c.row_key.in_(access))
        query = query.where(shown)
    last = -1
    while page := list(connection.execute(query.where(log_leaf.c.leaf_index > last).limit(_CHUNK)).all()):
        last = page[-1].leaf_index
        yield page


def _lines(
    connection: Connection, tenant: str, leaves: list[Row[tuple[Any, ...]]], tree: Tree, size: int
) -> Iterator[dict[str, Any]]:
    head = read_head(connection, tenant)
    base = head.base_position if head is not None else 0
    first, last = leaves[0].leaf_index, leaves[-1].leaf_index
    salts = _by_index(connection, log_salt, log_salt.c.salt, tenant, first, last)
    erased = _by_index(connection, tombstone, tombstone.c.erasure_id, tenant, first, last)
    contents: dict[tuple[str, str], bytes] = {}
    for kind in {leaf.kind for leaf in leaves}:
        keys = [leaf.row_key for leaf in leaves if leaf.kind == kind]
        read = erasure_contents(connection, tenant, keys, base) if kind == "erasure" else None
        rows = read if read is not None else stored_contents(connection, tenant, kind, keys, base)
        contents |= {(kind, key): data for key, data in rows.items()}
    for leaf in leaves:
        gone = leaf.leaf_index in erased
        yield {
            "index": leaf.leaf_index,
            "kind": leaf.kind,
            "key": leaf.row_key,
            "chain": leaf.chain,
            "previous": leaf.previous.hex(),
            "commitment": leaf.commitment.hex(),
            "salt": None if gone else salts.get(leaf.leaf_index, b"").hex(),
            "erased_by": erased.get(leaf.leaf_index),
            "parts": [] if gone else [_part(*one) for one in parts_of(contents.get((leaf.kind, leaf.row_key), b""))],
            "inclusion": [node.hex() for node in tree.inclusion(leaf.leaf_index, size)],
        }


def _by_index(connection: Connection, table: Any, column: Any, tenant: str, first: int, last: int) -> dict[int, Any]:
    query = select(table.c.leaf_index, column).where(table.c.tenant == tenant, table.c.leaf_index.between(first, last))
    return {row[0]: row[1] for row in connection.execute(query)}


def _part(name: str, data: bytes) -> dict[str, str]:
    """Text as text, and whatever is not as base64."""
    try:
        return {"name": name, "text": data.decode()}
    except UnicodeDecodeError:
        return {"name": name, "base64": base64.b64encode(data).decode()}


def _checkpoints(notes: Sequence[Row[tuple[Any, ...]]], tree: Tree, cosigned: dict[int, list[str]]) -> Iterator[bytes]:
    before = 0
    for row in notes:
        proof = [node.hex() for node in tree.consistency(before, row.size)] if before else []
        note = row.note + "".join(line + "\n" for line in cosigned.get(row.size, ()))
        yield msgspec.json.encode({"size": row.size, "note": note, "cut_us": row.cut_us, "consistency": proof}) + b"\n"
        before = row.size

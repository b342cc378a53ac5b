"""Evidence: rows with their proofs, the checkpoints, who read, the public key, and a program that checks it all without us.

A manifest signed with the key of the checkpoints counts and hashes every other file, so that nothing can be left out on the way.
What a bundle shows is redacted, and it holds the salts of the leaves in it: whoever has the rows may know what they were bound to.
"""

import base64
import hashlib
import tempfile
import textwrap
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import IO, Any, BinaryIO

import msgspec
from sqlalchemy import Connection, Row, select, text

from dataproxy.client.review_types import NO_PURPOSE, OWN_PURPOSE
from dataproxy.ledger.checkpoints import Checkpoints
from dataproxy.ledger.cosignatures import lines_of
from dataproxy.ledger.erased import erasure_contents, erasures_of
from dataproxy.ledger.errors import NoteInvalid
from dataproxy.ledger.leaf import parts_of
from dataproxy.ledger.log import read_head
from dataproxy.ledger.notes import NoteVerifier
from dataproxy.ledger.stored import stored_contents
from dataproxy.ledger.tiles import TiledTree
from dataproxy.store.schema import checkpoint, log_leaf, log_salt

_CHUNK = 200
_ALWAYS = (
    *("access_log", "consent", "erasure", "legal_hold", "retention_policy", "recording_policy", "redaction_policy"),
    *("vault_approval", "review_mark"),
)
"""Beside what happened: who read it, and the policies that it was recorded, redacted, kept and trained under."""
ALSO_HELD = (
    "Evidence of one trajectory, session or person holds the tenant's whole access log too, each read with its key and purpose, "
    "because lists, searches and exports may have shown it without naming it; and all consents, policies, holds, erasures, vault "
    "approvals and review marks of the tenant, because it was recorded, redacted, kept and trained on under them."
)
"""What whoever asks for a part should know before handing it on: said on the console's pages, in the zip, and in docs/audit.md."""
_FILES = ("events.jsonl", "access.jsonl", "others.jsonl")
_SPOOLED_BYTES = 16 << 20
_PIECE = 1 << 20
_PROGRAM = Path(__file__).parent / "evidence" / "verify.py"
_README = """Evidence of what Headrace recorded for one tenant, redacted.

  python verify.py             checks everything in this directory; needs Python 3.11 and the package `cryptography`
  python verify.py --key KEY   and that KEY, which you were given by other means, is the key that signed it all

events.jsonl, access.jsonl, others.jsonl   a row a line: what it holds, its salt, and the path from its leaf to the last checkpoint
checkpoints.jsonl                          every signed checkpoint of the log, each proven to continue the one before, with the
                                           signatures of witnesses: python verify.py --witness KEY demands one of them
manifest.txt                               lines and SHA-256 of every other file, signed with the same key: none was taken out since
ledger.pub                                 the key that signed them: the same text as ledger.pub where Headrace's keys are

%(also_held)s

An empty `purpose` of a read in access.jsonl means: %(no_purpose)s; by a key that begins with internal-trainer- or
internal-gateway-: %(own_purpose)s.

Compare the key with the one that you were given by other means. Its two forms:

  64 hex digits, as in ledger.pub   %(digits)s
  as tools for signed notes say it  %(key_line)s

A row that was erased has no parts and no salt, and names its erasure. A text that an event names and does not hold was stored first
by an event that is not in this bundle. What Headrace itself left out shows only where verify.py says that all leaves of the log
are here: in evidence of a whole tenant.
"""


def write_bundle(
    connection: Connection, tenant: str, trajectories: Sequence[str] | None, checkpoints: Checkpoints, file: BinaryIO | Any
) -> int:
    """Write the zip of ``trajectories`` of ``tenant`` (None: of all there is) to ``file``; gives the number of leaves in it.

    Memory holds a page of rows at a time, whatever the size of the log: what waits for its place in the zip lies in files.
    """
    notes = connection.execute(select(checkpoint).where(checkpoint.c.tenant == tenant).order_by(checkpoint.c.size)).all()
    size = notes[-1].size if notes else 0
    tree = signed_tree(connection, tenant, size, notes[-1].note if notes else "", checkpoints)
    num = 0
    with ExitStack() as stack:
        parts = {name: stack.enter_context(tempfile.SpooledTemporaryFile(max_size=_SPOOLED_BYTES)) for name in _FILES}
        for leaves in _pages(connection, tenant, trajectories, size):
            reads = _reads_among(connection, tenant, leaves)
            for leaf, line in zip(leaves, _lines(connection, tenant, leaves, tree), strict=True):
                name = "access.jsonl" if leaf.row_key in reads else "events.jsonl" if leaf.kind == "event" else "others.jsonl"
                parts[name].write(msgspec.json.encode(line) + b"\n")
                num += 1
        bundle = stack.enter_context(zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED))
        verifier = checkpoints.signer.verifier
        manifest = f"{verifier.origin(tenant)}/evidence\n"
        for name, part in parts.items():
            manifest += _add(bundle, name, _pieces(part))
        manifest += _add(bundle, "checkpoints.jsonl", _checkpoints(notes, tree, lines_of(connection, tenant)))
        manifest += _add(bundle, "ledger.pub", [f"{verifier.public.hex()}\n".encode()])
        manifest += _add(bundle, "verify.py", [_PROGRAM.read_bytes()])
        manifest += _add(bundle, "README.txt", [_readme(verifier).encode()])
        manifest += _add(bundle, "tenant.txt", [f"{tenant}\n".encode()])
        bundle.writestr("manifest.txt", checkpoints.signer.sign_text(manifest))
    return num


def _readme(verifier: NoteVerifier) -> str:
    words = {"also_held": textwrap.fill(ALSO_HELD, 130), "no_purpose": NO_PURPOSE, "own_purpose": OWN_PURPOSE}
    return _README % (words | {"digits": verifier.public.hex(), "key_line": verifier.key_line()})


def _pieces(part: IO[bytes]) -> Iterator[bytes]:
    part.seek(0)
    while piece := part.read(_PIECE):
        yield piece


def _add(bundle: zipfile.ZipFile, name: str, pieces: Iterable[bytes]) -> str:
    """Write one file; gives its line of the manifest."""
    num_lines, digest = 0, hashlib.sha256()
    with bundle.open(name, "w", force_zip64=True) as place:
        for piece in pieces:
            place.write(piece)
            digest.update(piece)
            num_lines += piece.count(b"\n")
    return f"{num_lines} {digest.hexdigest()} {name}\n"


def signed_tree(connection: Connection, tenant: str, size: int, note: str, checkpoints: Checkpoints) -> TiledTree:
    """The tree of the first ``size`` leaves; kept tiles that don't lead to the root that ``note`` signs are made anew, once."""

    def tree() -> TiledTree:
        return TiledTree(connection, tenant, checkpoints.tiles.roots(connection, tenant, size), size)

    made = tree()
    try:
        leads_there = made.root() == checkpoints.signer.verifier.open(note).root
    except NoteInvalid:
        leads_there = False
    if not leads_there:
        checkpoints.tiles.forget(tenant)
        made = tree()
    return made


def _pages(
    connection: Connection, tenant: str, trajectories: Sequence[str] | None, size: int
) -> Iterator[Sequence[Row[tuple[Any, ...]]]]:
    """The leaves to show, in order."""
    query = select(log_leaf).where(log_leaf.c.tenant == tenant).order_by(log_leaf.c.leaf_index)
    if trajectories is not None:
        wanted = sorted(index for index in _indexes(connection, tenant, trajectories) if index < size)
        for start in range(0, len(wanted), _CHUNK):
            yield connection.execute(query.where(log_leaf.c.leaf_index.in_(wanted[start : start + _CHUNK]))).all()
        return
    last = -1
    while page := connection.execute(query.where(log_leaf.c.leaf_index > last, log_leaf.c.leaf_index < size).limit(_CHUNK)).all():
        last = page[-1].leaf_index
        yield page


def _indexes(connection: Connection, tenant: str, trajectories: Sequence[str]) -> set[int]:
    """Those of what happened in ``trajectories``, who read anything of the tenant, and under which policies."""
    mine = select(log_leaf.c.leaf_index).where(log_leaf.c.tenant == tenant)
    found: set[int] = set()
    for start in range(0, len(trajectories), _CHUNK):
        chain = log_leaf.c.chain.in_(trajectories[start : start + _CHUNK])
        found.update(connection.execute(mine.where(chain, text("chain <> ''"))).scalars())
    for kind in _ALWAYS:
        found.update(connection.execute(mine.where(log_leaf.c.kind == kind)).scalars())
    of_reads = select(log_leaf.c.row_key).where(log_leaf.c.tenant == tenant, log_leaf.c.kind == "access_log")
    reads = connection.execute(of_reads).scalars().all()
    for start in range(0, len(reads), _CHUNK):
        keys = log_leaf.c.row_key.in_(reads[start : start + _CHUNK])
        found.update(connection.execute(mine.where(log_leaf.c.kind == "event", keys)).scalars())
    return found


def _reads_among(connection: Connection, tenant: str, leaves: Sequence[Row[tuple[Any, ...]]]) -> set[str]:
    """The keys of those ``leaves`` that say who read; a read is an event and a row, which may be gone and still has its leaf."""
    keys = [leaf.row_key for leaf in leaves if leaf.kind in ("event", "access_log")]
    where = (log_leaf.c.tenant == tenant, log_leaf.c.kind == "access_log", log_leaf.c.row_key.in_(keys))
    return set(connection.execute(select(log_leaf.c.row_key).where(*where)).scalars())


def _lines(
    connection: Connection, tenant: str, leaves: Sequence[Row[tuple[Any, ...]]], tree: TiledTree
) -> Iterator[dict[str, Any]]:
    head = read_head(connection, tenant)
    base = head.base_position if head is not None else 0
    salts = _salts(connection, tenant, [leaf.leaf_index for leaf in leaves])
    erased = erasures_of(connection, tenant, leaves)
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
            "inclusion": [node.hex() for node in tree.inclusion(leaf.leaf_index)],
        }


def _salts(connection: Connection, tenant: str, indexes: Sequence[int]) -> dict[int, bytes]:
    query = select(log_salt.c.leaf_index, log_salt.c.salt).where(log_salt.c.tenant == tenant, log_salt.c.leaf_index.in_(indexes))
    return {row.leaf_index: row.salt for row in connection.execute(query)}


def _part(name: str, data: bytes) -> dict[str, str]:
    """Text as text, and whatever is not as base64."""
    try:
        return {"name": name, "text": data.decode()}
    except UnicodeDecodeError:
        return {"name": name, "base64": base64.b64encode(data).decode()}


def _checkpoints(notes: Sequence[Row[tuple[Any, ...]]], tree: TiledTree, cosigned: dict[int, list[str]]) -> Iterator[bytes]:
    before = 0
    for row in notes:
        proof = [node.hex() for node in tree.consistency(before, row.size)] if before else []
        note = row.note + "".join(line + "\n" for line in cosigned.get(row.size, ()))
        yield msgspec.json.encode({"size": row.size, "note": note, "cut_us": row.cut_us, "consistency": proof}) + b"\n"
        before = row.size

"""Checks an evidence bundle: `python verify.py [DIRECTORY] [--witness KEY]…`. Needs Python 3.11 and `cryptography` only.

Every file is whole, as the signed manifest says; every checkpoint is signed and continues the one before; every row hashes to a
leaf of the last, with the chain of its trajectory unbroken; every row that was not erased is what its leaf committed to. Exit
status 0, or 1 and what is wrong: the file, the line, and the row.
Each witness named must have cosigned a checkpoint. Merkle trees and proofs are those of RFC 9162, section 2.1; notes those of
c2sp.org/tlog-checkpoint, cosignatures those of c2sp.org/tlog-cosignature.
"""

import argparse
import base64
import hashlib
import hmac
import json
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

FIRST = bytes(32)
ED25519 = b"\1"
FILES = ("events.jsonl", "access.jsonl", "others.jsonl")
NAMES = (*FILES, "checkpoints.jsonl", "manifest.txt", "ledger.pub", "tenant.txt", "verify.py", "README.txt")
MOST = 20
"""Problems that are named."""
UNREADABLE = (ValueError, KeyError, TypeError, AttributeError, IndexError, OverflowError, RecursionError)
"""What damaged text raises where it is taken apart."""


def node(left: bytes, right: bytes) -> bytes:
    return hashlib.sha256(b"\1" + left + right).digest()


def climb(index: int, size: int, leaf: bytes, path: list[bytes]) -> bytes | None:
    """The root that an inclusion proof leads to, or None."""
    if index >= size:
        return None
    at, last, found = index, size - 1, leaf
    for sibling in path:
        if last == 0:
            return None
        if at & 1 or at == last:
            found = node(sibling, found)
            while not at & 1 and at:
                at, last = at >> 1, last >> 1
        else:
            found = node(found, sibling)
        at, last = at >> 1, last >> 1
    return found if last == 0 else None


def continues(old: int, new: int, old_root: bytes, new_root: bytes, proof: list[bytes]) -> bool:
    """Whether a consistency proof holds."""
    if not 0 < old < new or not proof:
        return old == new and old_root == new_root and not proof
    nodes = [old_root, *proof] if old & (old - 1) == 0 else list(proof)
    at, last = old - 1, new - 1
    while at & 1:
        at, last = at >> 1, last >> 1
    left = right = nodes[0]
    for one in nodes[1:]:
        if last == 0:
            return False
        if at & 1 or at == last:
            left, right = node(one, left), node(one, right)
            while not at & 1 and at:
                at, last = at >> 1, last >> 1
        else:
            right = node(right, one)
        at, last = at >> 1, last >> 1
    return last == 0 and left == old_root and right == new_root


class Key:
    """The public key that signed it all. ``hex``: its form in ledger.pub, which is ``text``; ``line``: its form in signed notes."""

    def __init__(self, text: str) -> None:
        self.hex = text.strip().lower()
        public = bytes.fromhex(self.hex)
        self.public = Ed25519PublicKey.from_public_bytes(public)
        self.name = f"headrace-{hashlib.sha256(public).hexdigest()[:16]}"
        self.id = hashlib.sha256(self.name.encode() + b"\n" + ED25519 + public).digest()[:4]
        self.line = f"{self.name}+{self.id.hex()}+{base64.b64encode(ED25519 + public).decode()}"


def open_note(note: str, key: Key, tenant: str, suffix: str = "") -> list[str]:
    """The lines of a note that the key signed, below its origin; raises InvalidSignature for any other."""
    text, _, signatures = note.partition("\n\n")
    for line in signatures.split("\n"):
        if line.startswith(f"\u2014 {key.name} "):
            encoded = line.split(" ")[2]
            signature = base64.b64decode(encoded)
            if signature[:4] == key.id and base64.b64encode(signature).decode() == encoded:
                key.public.verify(signature[4:], (text + "\n").encode())
                origin, *lines = text.split("\n")
                if origin == key.name + "/" + quote(tenant, safe="") + suffix:
                    return lines
    raise InvalidSignature


@dataclass(slots=True, frozen=True)
class Row:
    """A line of events.jsonl, access.jsonl or others.jsonl, taken apart. ``content`` is b"" where it is gone or was erased."""

    where: str
    file: str
    index: int
    kind: str
    key: str
    chain: str
    previous: bytes
    commitment: bytes
    salt: bytes
    erased_by: str
    content: bytes
    stones: list[str]
    inclusion: list[bytes]
    hash: bytes


class Bundle:
    """The files of a directory, and what is found to be wrong with them."""

    def __init__(self, directory: Path) -> None:
        self.problems: list[str] = []
        self.files: dict[str, bytes] = {}
        for name in NAMES:
            try:
                self.files[name] = (directory / name).read_bytes()
            except OSError as error:
                missing = isinstance(error, FileNotFoundError)
                self.fault(name, "it is missing" if missing else f"it cannot be read: {error.strerror}")

    def fault(self, where: str, what: str) -> None:
        """Note a problem; ``where`` begins with the file's name."""
        self.problems.append(f"{where}: {what}")

    def lines(self, name: str) -> Iterator[tuple[str, bytes]]:
        """(where, line) of each; only \\n ends a line."""
        data = self.files.get(name, b"")
        for number, line in enumerate(data.removesuffix(b"\n").split(b"\n") if data else [], 1):
            yield f"{name} line {number}", line


def read_row(file: str, where: str, tenant: str, text: bytes) -> Row:
    """Raises one of UNREADABLE for what is no row."""
    row: dict[str, Any] = json.loads(text)
    content = b""
    for part in row["parts"]:
        data = base64.b64decode(part["base64"]) if "base64" in part else part["text"].encode()
        content += part["name"].encode() + b"\0" + len(data).to_bytes(8, "big") + data
    stones = [json.loads(part["text"]) for part in row["parts"] if row["kind"] == "erasure" and part["name"] == "tombstone"]
    previous, commitment = bytes.fromhex(row["previous"]), bytes.fromhex(row["commitment"])
    named = [row[name].encode() for name in ("kind", "key", "chain")]
    fields = [tenant.encode(), row["index"].to_bytes(8, "big"), *named, previous, commitment]
    framed = b"".join(len(field).to_bytes(4, "big") + field for field in fields)
    return Row(
        where=f"{where}: {row['kind']} {row['key']} (leaf {row['index']})",
        file=file,
        index=row["index"],
        kind=row["kind"],
        key=row["key"],
        chain=row["chain"],
        previous=previous,
        commitment=commitment,
        salt=bytes.fromhex(row["salt"] or ""),
        erased_by=row["erased_by"] or "",
        content=content,
        stones=[json.dumps([row["key"], *stone]) for stone in stones],
        inclusion=[bytes.fromhex(one) for one in row["inclusion"]],
        hash=hashlib.sha256(b"\0headrace leaf v1\0" + framed).digest(),
    )


def check_files(bundle: Bundle, key: Key | None, tenant: str | None) -> None:
    """Each file against its line in the manifest: number of lines, SHA-256, name; even if the signature does not hold."""
    try:
        manifest = bundle.files.get("manifest.txt", b"").decode()
        if key is not None and tenant is not None and manifest:
            open_note(manifest, key, tenant, "/evidence")
    except InvalidSignature:
        bundle.fault("manifest.txt", "it is not signed by the key in ledger.pub for the tenant in tenant.txt")
    except UNREADABLE:
        bundle.fault("manifest.txt", "it was changed and cannot be read")
        return
    for number, line in enumerate(manifest.partition("\n\n")[0].split("\n")[1:], 2):
        try:
            counted, digest, name = line.split(" ", 2)
            num = int(counted)
        except ValueError:
            bundle.fault(f"manifest.txt line {number}", "it was changed and cannot be read")
            continue
        data = bundle.files.get(name)
        if name not in NAMES:
            bundle.fault(f"manifest.txt line {number}", f"it names {name}, which this program does not know")
        if data is None:
            continue  # it is named already
        missing = num - data.count(b"\n")
        if missing > 0:
            bundle.fault(name, f"{missing} of its {num} lines {'is' if missing == 1 else 'are'} gone")
        elif missing < 0:
            bundle.fault(name, f"it had {num} lines, and {-missing} {'was' if missing == -1 else 'were'} added")
        elif hashlib.sha256(data).hexdigest() != digest:
            bundle.fault(name, "it was changed since it was signed")


def check_checkpoints(bundle: Bundle, key: Key, tenant: str) -> tuple[int, bytes] | None:
    """The last (size, root); None if anything is wrong with the checkpoints."""
    before: tuple[int, bytes] | None = None
    for where, text in bundle.lines("checkpoints.jsonl"):
        last, before = before, None
        try:
            line = json.loads(text)
            named, proof = line["size"], [bytes.fromhex(one) for one in line["consistency"]]
            num_leaves, encoded = open_note(line["note"], key, tenant)
            size, root = int(num_leaves), base64.b64decode(encoded)
        except InvalidSignature:
            bundle.fault(where, f"the checkpoint of {named} leaves is not signed by this key for this tenant")
        except UNREADABLE:
            bundle.fault(where, "it was changed and cannot be read")
        else:
            before = size, root
            if size != named or (last and not continues(last[0], size, last[1], root, proof)):
                bundle.fault(where, f"the checkpoint of {named} leaves does not continue the one before")
    if any(problem.startswith("checkpoints.jsonl") for problem in bundle.problems):
        return None
    if before is None:
        bundle.fault("checkpoints.jsonl", "there is no checkpoint")
    return before


def check_witness(bundle: Bundle, key_line: str) -> str:
    """What a witness has cosigned, in words."""
    try:
        name, key_id, encoded = key_line.strip().split("+", 2)
        public, largest = Ed25519PublicKey.from_public_bytes(base64.b64decode(encoded)[1:]), 0
    except ValueError:
        bundle.fault("--witness", f"{key_line} is no verifier key: name+id+key")
        return ""
    for where, text in bundle.lines("checkpoints.jsonl"):
        try:
            line = json.loads(text)
            body, _, signatures = line["note"].partition("\n\n")
            for signature in signatures.split("\n"):
                data = base64.b64decode(signature.split(" ")[2]) if signature.startswith(f"\u2014 {name} ") else b""
                if data[:4].hex() == key_id:
                    stamp = int.from_bytes(data[4:12], "big")
                    public.verify(data[12:], f"cosignature/v1\ntime {stamp}\n{body}\n".encode())
                    largest = line["size"]
        except (InvalidSignature, *UNREADABLE):
            bundle.fault(where, f"the cosignature of {name} does not hold")
    if not largest:
        bundle.fault("checkpoints.jsonl", f"{name} has cosigned no checkpoint")
    return f"{name} has cosigned {largest} leaves"


def check_rows(bundle: Bundle, tenant: str, tree: tuple[int, bytes] | None) -> list[Row]:
    """Each row against its leaf, chain and tree; ``tree`` None: the checkpoints do not say what the tree is."""
    rows: list[Row] = []
    for name in FILES:
        for where, text in bundle.lines(name):
            try:
                rows.append(read_row(name, where, tenant, text))
            except UNREADABLE:
                bundle.fault(where, "it was changed and cannot be read")
    buried = {stone for row in rows for stone in row.stones}
    chains: dict[str, bytes | None] = {}
    seen: set[int] = set()
    for row in sorted(rows, key=lambda one: one.index):
        in_tree = tree is None or climb(row.index, tree[0], row.hash, row.inclusion) == tree[1]
        if not in_tree:
            bundle.fault(row.where, "it is no leaf of the last checkpoint")
        elif row.index in seen:
            bundle.fault(row.where, "it is here twice")
        elif row.chain and chains.get(row.chain, FIRST) not in (None, row.previous):
            bundle.fault(row.where, "the chain of its trajectory is broken before it")
        elif what := fault_of(row, buried):
            bundle.fault(row.where, what)
        seen.add(row.index)
        chains[row.chain] = row.hash if tree is not None and in_tree else None  # what follows a changed row is not to blame
    return rows


def fault_of(row: Row, buried: set[str]) -> str:
    """What is wrong between a row and what its leaf committed to; "" if nothing."""
    if row.erased_by:
        known = json.dumps([row.erased_by, row.index, row.kind, row.key]) in buried
        return "" if known and not row.content else "it says that it was erased, and no erasure in the log says so"
    if hmac.digest(row.salt, row.content, "sha256") == row.commitment:
        return ""
    if not row.content:
        return "the row is missing"
    return "it is not what was stored" if row.salt else "its salt is gone, and no erasure took it"


def in_words(rows: list[Row]) -> str:
    """How many rows there are of each kind."""
    counts = Counter(kind_of(row) for row in rows)
    first = ("event", "reward", "read", "event of a read")
    ordered = sorted(counts, key=lambda kind: (first.index(kind) if kind in first else len(first), kind))
    return ", ".join(f"{counts[kind]} {kind if counts[kind] == 1 else plural(kind)}" for kind in ordered)


def kind_of(row: Row) -> str:
    """In words; a read is an event too, beside its row in the access log."""
    if row.file == "access.jsonl":
        return "event of a read" if row.kind == "event" else "read"
    return row.kind.replace("_", " ")


def plural(words: str) -> str:
    irregular = {"event of a read": "events of reads", "batch": "batches"}
    return irregular.get(words) or (words[:-1] + "ies" if words.endswith("y") else words + "s")


def check(bundle: Bundle, given: str | None, witnesses: list[str]) -> list[str]:
    """What was verified, in lines; it holds only if the bundle has no problems then."""
    try:
        tenant = bundle.files["tenant.txt"].decode().removesuffix("\n") if "tenant.txt" in bundle.files else None
    except UnicodeDecodeError:
        tenant = None
        bundle.fault("tenant.txt", "it was changed and cannot be read")
    try:
        key = Key(bundle.files["ledger.pub"].decode()) if "ledger.pub" in bundle.files else None
    except ValueError:
        key = None
        bundle.fault("ledger.pub", "it is no key of 64 hex digits")
    check_files(bundle, key, tenant)
    if key is None or tenant is None:
        return []
    if given is not None and given.strip() != key.line and given.strip().lower() != key.hex:
        bundle.fault("ledger.pub", f"it is {key.hex} ({key.line}), another key than the one given with --key")
    tree = check_checkpoints(bundle, key, tenant)
    if tree is None:
        bundle.fault("checkpoints.jsonl", "so the rows were not checked against the log")
    rows = check_rows(bundle, tenant, tree)
    seen = [check_witness(bundle, witness) for witness in witnesses]
    num, size = len(rows), tree[0] if tree else 0
    return [
        f"verified: {num} rows of {tenant or 'the operator'} ({sum(1 for row in rows if row.erased_by)} erased): {in_words(rows)}",
        f"the log has {size} leaves: {f'{size - num} of them are not in this evidence' if num < size else 'all of them are here'}",
        *seen,
        f"signed by the key {key.hex}, which tools for signed notes write {key.line}",
        *(["compare it with the one that you were given by other means: --key KEY does it"] if given is None else []),
    ]


def main() -> None:
    """Check the directory, or the one that this program lies in."""
    parser = argparse.ArgumentParser(description="Check an evidence bundle.")
    parser.add_argument("directory", type=Path, nargs="?", default=Path(__file__).parent)
    parser.add_argument("--key", help="the key that you were given by other means, in either form: no other may have signed it")
    parser.add_argument("--witness", action="append", default=[], help="a witness's verifier key: name+id+key")
    arguments = parser.parse_args()
    bundle = Bundle(arguments.directory)
    verified = check(bundle, arguments.key, arguments.witness)
    if problems := bundle.problems:
        more = [f"and {len(problems) - MOST} more"] if len(problems) > MOST else []
        sys.exit("\n".join([f"NOT verified: {len(problems)} problem{'s' if len(problems) > 1 else ''}", *problems[:MOST], *more]))
    print("\n".join(verified))


if __name__ == "__main__":
    main()

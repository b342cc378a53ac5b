"""Checks an evidence bundle: `python verify.py [DIRECTORY] [--witness KEY]…`. Needs Python 3.11 and `cryptography` only.

Every file is whole, as the signed manifest says; every checkpoint is signed and continues the one before; every row hashes to a
leaf of the last, with the chain of its trajectory unbroken; every row that was not erased is what its leaf committed to. Exit
status 0, or 1 and what is wrong.
Each witness named must have cosigned a checkpoint. Merkle trees and proofs are those of RFC 9162, section 2.1; notes those of
c2sp.org/tlog-checkpoint, cosignatures those of c2sp.org/tlog-cosignature.
"""

import argparse
import base64
import hashlib
import hmac
import json
import sys
from pathlib import Path
from typing import Any
from urllib.parse import quote

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

FIRST = bytes(32)
ED25519 = b"\1"
FILES = ("events.jsonl", "access.jsonl", "others.jsonl")


def node(left: bytes, right: bytes) -> bytes:
    return hashlib.sha256(b"\1" + left + right).digest()


def climb(index: int, size: int, leaf: bytes, path: list[bytes]) -> bytes | None:
    """The root that an inclusion proof leads to, or None."""
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
            signature = base64.b64decode(line.split(" ")[2])
            if signature[:4] == key.id:
                key.public.verify(signature[4:], (text + "\n").encode())
                origin, *lines = text.split("\n")
                if origin == key.name + "/" + quote(tenant, safe="") + suffix:
                    return lines
    raise InvalidSignature


def content(parts: list[dict[str, str]]) -> bytes:
    """What a leaf committed to."""
    found = b""
    for part in parts:
        data = base64.b64decode(part["base64"]) if "base64" in part else part["text"].encode()
        found += part["name"].encode() + b"\0" + len(data).to_bytes(8, "big") + data
    return found


def leaf_hash(tenant: str, row: dict[str, Any]) -> bytes:
    fields = [tenant.encode(), row["index"].to_bytes(8, "big")]
    fields += [row[name].encode() for name in ("kind", "key", "chain")]
    fields += [bytes.fromhex(row[name]) for name in ("previous", "commitment")]
    framed = b"".join(len(field).to_bytes(4, "big") + field for field in fields)
    return hashlib.sha256(b"\0headrace leaf v1\0" + framed).digest()


def check_files(directory: Path, key: Key, tenant: str) -> list[str]:
    """What is wrong with the files, by the signed manifest: a line and a SHA-256 for each."""
    try:
        lines = open_note((directory / "manifest.txt").read_text(), key, tenant, "/evidence")
    except InvalidSignature:
        return ["manifest.txt: not signed by this key for this tenant"]
    problems = []
    for line in lines:
        num, digest, name = line.split(" ", 2)
        data = (directory / name).read_bytes()
        missing = int(num) - data.count(b"\n")
        if missing > 0:
            problems.append(f"{name}: {missing} of its {num} lines {'is' if missing == 1 else 'are'} gone")
        elif missing < 0:
            problems.append(f"{name}: it had {num} lines, and {-missing} {'was' if missing == -1 else 'were'} added")
        elif hashlib.sha256(data).hexdigest() != digest:
            problems.append(f"{name}: it was changed")
    return problems


def check_checkpoints(directory: Path, key: Key, tenant: str) -> tuple[int, bytes]:
    """The last (size, root)."""
    before: tuple[int, bytes] | None = None
    for text in (directory / "checkpoints.jsonl").read_text().splitlines():
        line = json.loads(text)
        try:
            num_leaves, encoded = open_note(line["note"], key, tenant)
            size, root = int(num_leaves), base64.b64decode(encoded)
        except InvalidSignature:
            sys.exit(f"checkpoint of {line['size']} leaves: not signed by this key for this tenant")
        proof = [bytes.fromhex(one) for one in line["consistency"]]
        if size != line["size"] or (before and not continues(before[0], size, before[1], root, proof)):
            sys.exit(f"checkpoint of {line['size']} leaves: it does not continue the one before")
        before = size, root
    if before is None:
        sys.exit("there is no checkpoint")
    return before


def check_witness(directory: Path, key_line: str) -> int:
    """The leaves of the largest checkpoint that a witness has cosigned."""
    name, key_id, encoded = key_line.strip().split("+", 2)
    public, largest = Ed25519PublicKey.from_public_bytes(base64.b64decode(encoded)[1:]), 0
    for text in (directory / "checkpoints.jsonl").read_text().splitlines():
        line = json.loads(text)
        body, _, signatures = line["note"].partition("\n\n")
        for signature in signatures.split("\n"):
            data = base64.b64decode(signature.split(" ")[2]) if signature.startswith("\u2014 " + name + " ") else b""
            if data[:4].hex() == key_id:
                stamp = int.from_bytes(data[4:12], "big")
                try:
                    public.verify(data[12:], f"cosignature/v1\ntime {stamp}\n{body}\n".encode())
                except InvalidSignature:
                    sys.exit(f"checkpoint of {line['size']} leaves: the cosignature of {name} does not hold")
                largest = line["size"]
    if not largest:
        sys.exit(f"{name} has cosigned no checkpoint")
    return largest


def check_rows(directory: Path, tenant: str, size: int, root: bytes) -> tuple[int, int]:
    """(rows, erased ones)."""
    rows = [json.loads(line) for name in FILES for line in (directory / name).read_text().splitlines()]
    buried = {json.dumps([row["key"], *stone]) for row in rows if row["kind"] == "erasure" for stone in tombstones(row)}
    chains: dict[str, bytes] = {}
    seen: set[int] = set()
    for row in sorted(rows, key=lambda one: one["index"]):
        name, hashed = f"{row['kind']} {row['key']} (leaf {row['index']}): ", leaf_hash(tenant, row)
        if climb(row["index"], size, hashed, [bytes.fromhex(one) for one in row["inclusion"]]) != root:
            sys.exit(name + "it is no leaf of the last checkpoint")
        if row["index"] in seen:
            sys.exit(name + "it is here twice")
        seen.add(row["index"])
        if row["chain"] and row["previous"] != chains.get(row["chain"], FIRST).hex():
            sys.exit(name + "the chain of its trajectory is broken before it")
        chains[row["chain"]] = hashed
        if row["erased_by"]:
            if json.dumps([row["erased_by"], row["index"], row["kind"], row["key"]]) not in buried or row["parts"]:
                sys.exit(name + "it says that it was erased, and no erasure in the log says so")
        elif hmac.new(bytes.fromhex(row["salt"]), content(row["parts"]), "sha256").hexdigest() != row["commitment"]:
            sys.exit(name + "it is not what was stored")
    return len(rows), sum(1 for row in rows if row["erased_by"])


def tombstones(row: dict[str, Any]) -> list[list[Any]]:
    """[index, kind, key] of every row that an erasure emptied."""
    return [json.loads(part["text"]) for part in row["parts"] if part["name"] == "tombstone"]


def main() -> None:
    """Check the directory, or the one that this program lies in."""
    parser = argparse.ArgumentParser(description="Check an evidence bundle.")
    parser.add_argument("directory", type=Path, nargs="?", default=Path(__file__).parent)
    parser.add_argument("--key", help="the key that you were given by other means, in either form: no other may have signed it")
    parser.add_argument("--witness", action="append", default=[], help="a witness's verifier key: name+id+key")
    arguments = parser.parse_args()
    directory = arguments.directory
    tenant = (directory / "tenant.txt").read_text().rstrip("\n")
    key = Key((directory / "ledger.pub").read_text())
    if arguments.key is not None and arguments.key.strip() != key.line and arguments.key.strip().lower() != key.hex:
        sys.exit(f"ledger.pub: it is {key.hex} ({key.line}), another key than the one given with --key")
    if problems := check_files(directory, key, tenant):
        sys.exit("\n".join(problems))
    size, root = check_checkpoints(directory, key, tenant)
    num, erased = check_rows(directory, tenant, size, root)
    rest = f"the other {size - num} are not in this evidence" if num < size else "it is all here"
    print(f"verified: {num} rows of {tenant} ({erased} erased), in a log of {size} leaves; {rest}")
    for key_line in arguments.witness:
        print(f"{key_line.split('+')[0]} has cosigned {check_witness(directory, key_line)} leaves")
    print(f"signed by the key {key.hex}, which tools for signed notes write {key.line}")
    if arguments.key is None:
        print("compare it with the one that you were given by other means: --key KEY does it")


if __name__ == "__main__":
    main()

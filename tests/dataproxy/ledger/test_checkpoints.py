"""Checkpoints: signed as C2SP notes say, cut only of what grew, and kept in a file that a crash leaves behind and a start mends."""

import base64
import hashlib

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from dataproxy.ledger.errors import NoteInvalid
from dataproxy.ledger.notes import NoteSigner
from dataproxy.store.schema import checkpoint
from tests.dataproxy.ledger.lived_in import live
from tests.dataproxy.proxy import Clock, Proxy

SIGNER = NoteSigner(bytes(range(32)))
ROOT = hashlib.sha256(b"root").digest()


def test_a_note_is_the_text_an_empty_line_and_signatures() -> None:
    note = SIGNER.sign("acme", 7, ROOT)
    origin, size, root, empty, signature, end = note.split("\n")
    assert (size, base64.b64decode(root), empty, end) == ("7", ROOT, "", "")
    dash, name, data = signature.split(" ")
    public = Ed25519PrivateKey.from_private_bytes(bytes(range(32))).public_key()
    assert dash == "—" and origin == f"{name}/acme"
    assert base64.b64decode(data)[:4] == hashlib.sha256(name.encode() + b"\n\x01" + public.public_bytes_raw()).digest()[:4]
    public.verify(base64.b64decode(data)[4:], f"{origin}\n7\n{root}\n".encode())


def test_a_tenant_of_any_name_has_an_origin_of_one_line() -> None:
    for tenant in ("", "a b\nc/d+e", "日本"):
        opened = SIGNER.verifier.open(SIGNER.sign(tenant, 1, ROOT))
        assert opened.origin == SIGNER.verifier.origin(tenant) and opened.origin.isascii() and " " not in opened.origin


def test_another_witness_may_sign_too_and_nobody_else_instead() -> None:
    note = SIGNER.sign("acme", 7, ROOT)
    other = NoteSigner(bytes(32)).sign("acme", 7, ROOT)
    line = other.rstrip("\n").rpartition("\n")[2]
    assert SIGNER.verifier.open(note + line + "\n").size == 7
    with pytest.raises(NoteInvalid, match="not signed by this log's key"):
        SIGNER.verifier.open(other)


@pytest.mark.parametrize("change", [("7", "8"), ("\n\n", "\n"), ("headrace", "headrake"), ("— ", "- "), ("=\n", "\n")])
def test_a_changed_note_is_refused(change: tuple[str, str]) -> None:
    note = SIGNER.sign("acme", 7, ROOT)
    with pytest.raises(NoteInvalid):
        SIGNER.verifier.open(note.replace(*change))


def test_a_signed_text_of_another_origin_is_no_checkpoint() -> None:
    with pytest.raises(NoteInvalid, match="it is no checkpoint"):
        SIGNER.verifier.open(SIGNER.sign_text(f"{SIGNER.verifier.origin('acme')}/evidence\n3 {ROOT.hex()} events.jsonl\n"))


async def test_what_did_not_grow_gets_no_checkpoint(proxy: Proxy, clock: Clock) -> None:
    await live(proxy, clock)
    assert proxy.services.checkpoints.cut() == 0
    proxy.consent("acme")
    assert proxy.services.checkpoints.cut() == 1


@pytest.mark.parametrize("torn", [b"", b'{"tenant":"acme","si'])
async def test_a_start_writes_what_a_crash_kept_from_the_file(proxy: Proxy, clock: Clock, torn: bytes) -> None:
    await live(proxy, clock)
    file = proxy.services.checkpoints.file
    whole = file.read_bytes()
    lines = whole.splitlines(keepends=True)
    file.write_bytes(b"".join(lines[:-1]) + torn)
    proxy.restart()
    assert sorted(file.read_bytes().splitlines()) == sorted(whole.splitlines())
    assert len(proxy.services.checkpoints.read_file()) == proxy.count(checkpoint)

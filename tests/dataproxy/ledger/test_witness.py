"""Witnesses: the form is C2SP's, a log that did not only grow is not cosigned, and an audit demands what was promised."""

import base64
import hashlib
import os

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from dataproxy.errors import Refused
from dataproxy.ledger.cosignatures import add_cosignature, lines_of, request_for
from dataproxy.ledger.errors import NoteInvalid
from dataproxy.ledger.merkle import Tree, leaf_hash
from dataproxy.ledger.notes import NoteSigner
from dataproxy.ledger.verify import verify
from dataproxy.ledger.witness import (
    Request,
    Seen,
    WitnessSigner,
    WitnessVerifier,
    body_of,
    check_request,
    read_request,
    split_line,
)
from tests.dataproxy.ledger.lived_in import live
from tests.dataproxy.proxy import Clock, Proxy

SECRET, WITNESS = WitnessSigner.generate("witness.example.com/w1")
LOG = NoteSigner(bytes(32))
LEAVES = [leaf_hash(bytes([n])) for n in range(9)]
TREE = Tree(LEAVES)
C2SP_EXAMPLE = (
    "— witness.example.com/w1 jWbPPwAAAABkGFDLEZMHwSRaJNiIDoe9DYn/zXcrtPHeolMI5OWXEhZCB9dlrDJsX3b2oyin1nPZqhf5nNo0xUe+"
    "mbIUBkBIfZ+qnA=="
)
"""The line in the text of c2sp.org/tlog-cosignature; its message there says ``time 1679315147``."""


def asked(old: int, size: int, tree: Tree = TREE) -> Request:
    return Request(old, tree.consistency(old, size), LOG.sign("acme", size, tree.root(size)))


def test_the_line_of_the_standards_own_example_is_read_as_it_says() -> None:
    key_id, stamped = split_line(C2SP_EXAMPLE)
    assert (key_id.hex(), int.from_bytes(stamped[:8], "big"), len(stamped)) == ("8d66cf3f", 1679315147, 72)


def test_key_and_message_are_what_the_standard_writes_down() -> None:
    name, key_id, encoded = WITNESS.verifier.key_line.split("+", 2)
    key = base64.b64decode(encoded)
    assert key[0] == 4 and hashlib.sha256(name.encode() + b"\n" + key).digest()[:4].hex() == key_id
    text = body_of(asked(0, 5).note)
    line = WITNESS.cosign(text, 1679315147)
    got_id, stamped = split_line(line)
    assert got_id.hex() == key_id and line.startswith(f"— {name} ")
    message = b"cosignature/v1\ntime 1679315147\n" + text.encode()
    Ed25519PublicKey.from_public_bytes(key[1:]).verify(stamped[8:], message)  # raises if it is not


def test_a_key_survives_its_file_and_another_text_or_key_is_refused() -> None:
    again = WitnessSigner(SECRET)
    text = body_of(asked(0, 5).note)
    line = again.cosign(text, 7)
    assert WitnessVerifier(WITNESS.verifier.key_line).signed_at(line, text) == 7
    for other in (text.replace("\n5\n", "\n6\n"), body_of(asked(0, 6).note)):
        with pytest.raises(NoteInvalid):
            WITNESS.verifier.signed_at(line, other)
    stranger = WitnessSigner.generate("witness.example.com/w1")[1]
    with pytest.raises(NoteInvalid):
        WITNESS.verifier.signed_at(stranger.cosign(text, 7), text)
    with pytest.raises(NoteInvalid, match="id"):
        WitnessVerifier(f"other+{WITNESS.verifier.key_id.hex()}+{WITNESS.verifier.key_line.split('+', 2)[2]}")


def test_a_request_has_the_form_of_add_checkpoint() -> None:
    request = asked(4, 9)
    head, _, note = request.text().partition("\n\n")
    assert head.split("\n")[0] == "old 4" and [base64.b64decode(x) for x in head.split("\n")[1:]] == request.proof
    assert note == request.note and read_request(request.text()) == request
    for broken in ("old 04\n\nx", "old -1\n\nx", "new 1\n\nx", "old 1\nnot base64!\n\nx", "old 1"):
        with pytest.raises(NoteInvalid):
            read_request(broken)


def test_only_a_log_that_grew_out_of_what_was_seen_is_cosigned() -> None:
    assert check_request(asked(0, 4), LOG.verifier, None).size == 4
    seen = Seen(4, TREE.root(4))
    assert check_request(asked(4, 9), LOG.verifier, seen).root == TREE.root(9)
    assert check_request(asked(4, 4), LOG.verifier, seen).size == 4
    fork = Tree([leaf_hash(b"else"), *LEAVES[1:]])
    for wrong, why in (
        (asked(0, 9), "--old 4"),
        (asked(4, 9, fork), "rewritten"),
        (Request(4, TREE.consistency(5, 9), asked(4, 9).note), "rewritten"),
        (Request(4, [], asked(4, 9).note), "rewritten"),
        (Request(4, [], LOG.sign("acme", 4, fork.root(4))), "two logs"),
        (Request(4, [], LOG.sign("acme", 3, TREE.root(3))), "its end is gone"),
        (Request(4, [], NoteSigner(os.urandom(32)).sign("acme", 9, TREE.root(9))), "not signed"),
    ):
        with pytest.raises(NoteInvalid, match=why):
            check_request(wrong, LOG.verifier, seen)


async def test_an_audit_demands_a_witness_and_a_changed_cosignature_is_named(proxy: Proxy, clock: Clock) -> None:
    await live(proxy, clock)
    checkpoints = proxy.services.checkpoints
    checkpoints.cut()

    def report_of(witness: WitnessVerifier, tenant: str = "acme"):  # type: ignore[no-untyped-def]
        with proxy.services.database.read() as connection:
            filed = [line for line in checkpoints.read_file() if line.tenant == tenant]
            *_, report = verify(connection, tenant, checkpoints.signer.verifier, filed, [witness])
        return report

    missing = report_of(WITNESS.verifier)
    assert not missing.ok and "bears its signature" in missing.problems[0].what
    with proxy.services.database.write() as connection:
        request = request_for(connection, "acme", 0)
        checkpoint = check_request(request, checkpoints.signer.verifier, None)
        line = WITNESS.cosign(body_of(request.note), clock.now_us // 1_000_000)
        assert add_cosignature(connection, "acme", WITNESS.verifier, line, clock.now_us)[0] == checkpoint.size
        assert lines_of(connection, "acme") == {checkpoint.size: [line]}
        with pytest.raises(Refused, match="no cosignature"):
            add_cosignature(connection, "other", WITNESS.verifier, line, clock.now_us)
        with pytest.raises(Refused, match="future"):
            late = WITNESS.cosign(body_of(request.note), clock.now_us // 1_000_000 + 4000)
            add_cosignature(connection, "acme", WITNESS.verifier, late, clock.now_us)
    good = report_of(WITNESS.verifier)
    assert good.ok and good.witnessed == {f"acme {WITNESS.verifier.label}": checkpoint.size}
    assert not report_of(WitnessSigner.generate("w.example/2")[1].verifier).ok
    with proxy.services.database.write() as connection:
        connection.exec_driver_sql("DROP TRIGGER cosignature_no_update")
        connection.exec_driver_sql("UPDATE cosignature SET line = replace(line, ' ', ' A')")
    assert any(problem.table == "cosignature" for problem in report_of(WITNESS.verifier).problems)

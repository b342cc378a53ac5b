"""Cosignatures of checkpoints: an outside witness states what the largest log was that it saw, and that it only ever grew. Pure.

The formats are C2SP's: https://c2sp.org/tlog-cosignature (Ed25519, ``cosignature/v1``), keys as in https://c2sp.org/signed-note,
requests as in the ``add-checkpoint`` call of https://c2sp.org/tlog-witness. Not owned: who keeps them, and what a witness saw.
"""

import base64
import binascii
import hashlib
import re
from dataclasses import dataclass

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from dataproxy.ledger.errors import NoteInvalid
from dataproxy.ledger.merkle import is_consistent
from dataproxy.ledger.notes import Checkpoint, NoteVerifier

_COSIGNATURE = b"\x04"
_STAMPED = 8 + 64
_NAME = re.compile(r"[^\s+]{1,100}")
_MOST_PROOF_LINES = 63
_PRIVATE = "PRIVATE+KEY+"


class WitnessVerifier:
    """Checks cosignatures of one witness. ``key_line`` is its verifier key: name, id, base64 of 0x04 and the public key."""

    def __init__(self, key_line: str) -> None:
        """Raises NoteInvalid: it is no key of a witness."""
        name, public = _read_key(key_line, key_line.strip().split("+", 2))
        self.name = name
        self._key = Ed25519PublicKey.from_public_bytes(public)
        self.key_id = hashlib.sha256(name.encode() + b"\n" + _COSIGNATURE + public).digest()[:4]
        self.key_line = f"{name}+{self.key_id.hex()}+{base64.b64encode(_COSIGNATURE + public).decode()}"
        if self.key_line != key_line.strip():
            raise NoteInvalid("the key's id is not that of its name and key")

    @property
    def label(self) -> str:
        """Name and key id: two keys of one name are two witnesses."""
        return f"{self.name}+{self.key_id.hex()}"

    def signed_at(self, line: str, text: str) -> int:
        """When (POSIX seconds) this witness cosigned the checkpoint whose body is ``text``, by its signature ``line``.

        Raises:
            NoteInvalid: it is no signature of this witness on this text.
        """
        key_id, stamped = split_line(line)
        if line.split(" ")[1] != self.name or key_id != self.key_id or len(stamped) != _STAMPED:
            raise NoteInvalid(f"the line is no cosignature of {self.name}")
        seconds = int.from_bytes(stamped[:8], "big")
        try:
            self._key.verify(stamped[8:], _message(seconds, text))
        except InvalidSignature as error:
            raise NoteInvalid(f"{self.name} has not signed this checkpoint") from error
        return seconds


class WitnessSigner:
    """``secret_line`` is what ``generate`` gave."""

    def __init__(self, secret_line: str) -> None:
        """Raises NoteInvalid: it is no key."""
        if not secret_line.startswith(_PRIVATE):
            raise NoteInvalid("this is no witness's private key; `headrace audit witness keygen` makes one")
        name, seed = _read_key("the key", secret_line.strip().removeprefix(_PRIVATE).split("+", 2))
        self._key = Ed25519PrivateKey.from_private_bytes(seed)
        self.verifier = WitnessVerifier(_key_line(name, self._key.public_key().public_bytes_raw()))

    @classmethod
    def generate(cls, name: str) -> tuple[str, "WitnessSigner"]:
        """(secret line, signer) of a new key; ``name`` should be a URL without its scheme.

        Raises:
            NoteInvalid: the name holds a space or a plus.
        """
        if not _NAME.fullmatch(name):
            raise NoteInvalid("a witness's name has no spaces and no +, such as witness.example.com/w1")
        private = Ed25519PrivateKey.generate()
        public = _key_line(name, private.public_key().public_bytes_raw()).split("+", 2)
        secret = f"{_PRIVATE}{name}+{public[1]}+{base64.b64encode(_COSIGNATURE + private.private_bytes_raw()).decode()}"
        return secret, cls(secret)

    def cosign(self, text: str, seconds: int) -> str:
        """The signature line of the checkpoint whose body is ``text``, at ``seconds``."""
        stamped = seconds.to_bytes(8, "big") + self._key.sign(_message(seconds, text))
        return f"— {self.verifier.name} {base64.b64encode(self.verifier.key_id + stamped).decode()}"


@dataclass(slots=True, frozen=True)
class Request:
    """What a witness is asked: to cosign ``note``, a log that grew out of one of ``old`` leaves by ``proof``."""

    old: int
    proof: list[bytes]
    note: str

    def text(self) -> str:
        """As the body of ``add-checkpoint``."""
        lines = [f"old {self.old}", *(base64.b64encode(node).decode() for node in self.proof)]
        return "\n".join(lines) + "\n\n" + self.note


@dataclass(slots=True, frozen=True)
class Seen:
    """The largest checkpoint of a log that a witness has cosigned."""

    size: int
    root: bytes


def read_request(text: str) -> Request:
    """The request in ``text``.

    Raises:
        NoteInvalid: it is none.
    """
    head, blank, note = text.partition("\n\n")
    first, *lines = head.split("\n")
    old = re.fullmatch(r"old (0|[1-9][0-9]*)", first)
    if not blank or old is None or len(lines) > _MOST_PROOF_LINES:
        raise NoteInvalid("this is no request to a witness: `headrace audit witness ask` makes one")
    try:
        return Request(int(old[1]), [base64.b64decode(line, validate=True) for line in lines], note)
    except binascii.Error as error:
        raise NoteInvalid("a line of the proof is no base64") from error


def check_request(request: Request, log: NoteVerifier, seen: Seen | None) -> Checkpoint:
    """The checkpoint to cosign: signed by ``log``, and grown out of what was ``seen`` of that log.

    Raises:
        NoteInvalid: it must not be cosigned; the message says why, and from which size to ask.
    """
    checkpoint = log.open(request.note)
    last = seen or Seen(0, b"")
    if request.old != last.size:
        raise NoteInvalid(f"this witness has seen {last.size} leaves; ask again with `--old {last.size}`")
    if checkpoint.size < last.size:
        raise NoteInvalid(f"the log had {last.size} leaves before and has {checkpoint.size} now: its end is gone")
    if last.size == checkpoint.size and checkpoint.root != last.root:
        raise NoteInvalid(f"there are two logs of {last.size} leaves: it was rewritten, or shows others another one")
    if last.size == 0 and request.proof:
        raise NoteInvalid("a log that was never seen needs no proof")
    if 0 < last.size < checkpoint.size and not is_consistent(last.size, checkpoint.size, last.root, checkpoint.root, request.proof):
        raise NoteInvalid(f"the log is not the one of {last.size} leaves that was seen before: it was rewritten")
    return checkpoint


def body_of(note: str) -> str:
    """What a checkpoint's signatures are of."""
    return note.partition("\n\n")[0] + "\n"


def split_line(line: str) -> tuple[bytes, bytes]:
    """(key id, signature) of a note's signature line.

    Raises:
        NoteInvalid: it is none.
    """
    try:
        dash, _, encoded = line.rstrip("\n").split(" ")
        data = base64.b64decode(encoded, validate=True)
    except (ValueError, binascii.Error) as error:
        raise NoteInvalid("this is no signature line of a note") from error
    if dash != "—" or len(data) < 5:
        raise NoteInvalid("this is no signature line of a note")
    return data[:4], data[4:]


def _message(seconds: int, text: str) -> bytes:
    return f"cosignature/v1\ntime {seconds}\n{text}".encode()


def _key_line(name: str, public: bytes) -> str:
    key_id = hashlib.sha256(name.encode() + b"\n" + _COSIGNATURE + public).digest()[:4]
    return f"{name}+{key_id.hex()}+{base64.b64encode(_COSIGNATURE + public).decode()}"


def _read_key(what: str, parts: list[str]) -> tuple[str, bytes]:
    try:
        name, _, encoded = parts
        data = base64.b64decode(encoded, validate=True)
    except (ValueError, binascii.Error) as error:
        raise NoteInvalid(f"{what} is no key of a witness: name+id+key is wanted") from error
    if data[:1] != _COSIGNATURE or len(data) != 33:
        raise NoteInvalid(f"{what} is of another algorithm; Ed25519 cosignatures (0x04) are taken")
    return name, data[1:]

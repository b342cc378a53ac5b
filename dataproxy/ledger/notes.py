"""Signed checkpoints as text: C2SP signed-note and tlog-checkpoint, Ed25519. Pure.

    <origin>
    <number of leaves>
    <root, base64>

    — <key name> <base64 of the key's four-byte id and the signature>

Outside witnesses sign the same text. The standard: https://c2sp.org/tlog-checkpoint, https://c2sp.org/signed-note.
"""

import base64
import binascii
import hashlib
from dataclasses import dataclass
from urllib.parse import quote

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from dataproxy.ledger.errors import NoteInvalid

_ED25519 = b"\x01"


@dataclass(slots=True, frozen=True)
class Checkpoint:
    """What a tree was at one moment."""

    origin: str
    size: int
    root: bytes

    def text(self) -> str:
        """What is signed."""
        return f"{self.origin}\n{self.size}\n{base64.b64encode(self.root).decode()}\n"


class NoteVerifier:
    """Checks notes of one key. ``public`` is its 32 bytes."""

    def __init__(self, public: bytes) -> None:
        self.public = public
        self.name = f"headrace-{hashlib.sha256(public).hexdigest()[:16]}"
        self._key = Ed25519PublicKey.from_public_bytes(public)
        self.key_id = hashlib.sha256(self.name.encode() + b"\n" + _ED25519 + public).digest()[:4]

    def origin(self, tenant: str) -> str:
        """The name of ``tenant``'s log: one line, whatever the tenant is called."""
        return f"{self.name}/{quote(tenant, safe='')}"

    def key_line(self) -> str:
        """The key as note tools write it: name, id, base64 of algorithm and key."""
        return f"{self.name}+{self.key_id.hex()}+{base64.b64encode(_ED25519 + self.public).decode()}"

    def open(self, note: str) -> Checkpoint:
        """The checkpoint in ``note``; signatures of other keys are passed over.

        Raises:
            NoteInvalid: it is no checkpoint, or this key has not signed it.
        """
        text, separator, signatures = note.partition("\n\n")
        try:
            origin, size, root = text.split("\n")
            checkpoint = Checkpoint(origin, int(size), base64.b64decode(root, validate=True))
            signed = {base64.b64decode(line.split(" ")[2], validate=True) for line in self._lines(signatures)}
        except (ValueError, IndexError, binascii.Error) as error:
            raise NoteInvalid("it is no checkpoint") from error
        if not separator or checkpoint.text() != text + "\n" or not any(self._signed(text + "\n", one) for one in signed):
            raise NoteInvalid("it is not signed by this log's key")
        return checkpoint

    def _lines(self, signatures: str) -> list[str]:
        return [line for line in signatures.split("\n") if line.startswith(f"— {self.name} ")]

    def _signed(self, text: str, signature: bytes) -> bool:
        if signature[:4] != self.key_id:
            return False
        try:
            self._key.verify(signature[4:], text.encode())
        except InvalidSignature:
            return False
        return True


class NoteSigner:
    """Signs checkpoints. ``private`` is an Ed25519 key's 32 bytes."""

    def __init__(self, private: bytes) -> None:
        self._key = Ed25519PrivateKey.from_private_bytes(private)
        self.verifier = NoteVerifier(self._key.public_key().public_bytes_raw())

    def sign(self, tenant: str, size: int, root: bytes) -> str:
        """The note of ``tenant``'s tree of ``size`` leaves."""
        return self.sign_text(Checkpoint(self.verifier.origin(tenant), size, root).text())

    def sign_text(self, text: str) -> str:
        """The note of any ``text`` of whole lines; what is no checkpoint begins with another origin than a log's."""
        signature = base64.b64encode(self.verifier.key_id + self._key.sign(text.encode())).decode()
        return f"{text}\n— {self.verifier.name} {signature}\n"

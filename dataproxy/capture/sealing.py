"""Sealing to a public key (ECIES): ephemeral X25519, HKDF-SHA256, AES-256-GCM. Who seals cannot open.

Used for a segment's data key and for quarantined records. The key is fresh for each call, so a constant nonce is safe.
"""

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from dataproxy.capture.errors import KeyUnusable

_KEY_BYTES = 32
_NONCE = bytes(12)


def generate_keypair() -> tuple[bytes, bytes]:
    """A new (private, public) X25519 pair, 32 raw bytes each."""
    private = X25519PrivateKey.generate()
    return private.private_bytes_raw(), private.public_key().public_bytes_raw()


def public_of(private_key: bytes) -> bytes:
    """The public key of a private one, 32 raw bytes each."""
    return X25519PrivateKey.from_private_bytes(private_key).public_key().public_bytes_raw()


def seal(public_key: bytes, plaintext: bytes, context: bytes) -> bytes:
    """``plaintext`` sealed for the holder of the private key; ``context`` must be given again to open it."""
    ephemeral = X25519PrivateKey.generate()
    ephemeral_public = ephemeral.public_key().public_bytes_raw()
    shared = ephemeral.exchange(X25519PublicKey.from_public_bytes(public_key))
    key = _derive(shared, ephemeral_public + public_key, context)
    return ephemeral_public + AESGCM(key).encrypt(_NONCE, plaintext, context)


def unseal(private_key: bytes, sealed: bytes, context: bytes) -> bytes:
    """What ``seal`` was given.

    Raises:
        KeyUnusable: damaged, destroyed, another key's, or another context's.
    """
    if len(sealed) <= _KEY_BYTES:
        raise KeyUnusable("the sealed bytes are too short to hold anything")
    private = X25519PrivateKey.from_private_bytes(private_key)
    ephemeral_public = sealed[:_KEY_BYTES]
    try:
        shared = private.exchange(X25519PublicKey.from_public_bytes(ephemeral_public))
        key = _derive(shared, ephemeral_public + private.public_key().public_bytes_raw(), context)
        return AESGCM(key).decrypt(_NONCE, sealed[_KEY_BYTES:], context)
    except (InvalidTag, ValueError) as error:
        raise KeyUnusable("the sealed bytes do not open with this private key and context") from error


def _derive(shared: bytes, salt: bytes, context: bytes) -> bytes:
    return HKDF(algorithm=SHA256(), length=_KEY_BYTES, salt=salt, info=b"headrace.seal.v1\0" + context).derive(shared)

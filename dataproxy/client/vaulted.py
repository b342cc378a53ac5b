"""Raw tokens as they lie in the vault: sealed by the data proxy under a trajectory's key, opened inside the trainer alone."""

import os

import msgspec
import numpy as np
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from numpy.typing import NDArray

KEY_SIZE = 32
_NONCE_SIZE = 12


class SealedUnreadable(Exception):
    """The key is another's, or the bytes were changed."""


class RawTokens(msgspec.Struct, frozen=True, array_like=True):
    """One choice as the engine sampled it, little-endian: prompt_ids [P] and output_ids [N] int32, logprobs [N] float32."""

    prompt_ids: bytes
    output_ids: bytes
    logprobs: bytes

    @classmethod
    def of(cls, prompt_ids: NDArray[np.int32], output_ids: NDArray[np.int32], logprobs: NDArray[np.float32]) -> "RawTokens":
        """From arrays of those shapes."""
        return cls(
            prompt_ids.astype("<i4", copy=False).tobytes(),
            output_ids.astype("<i4", copy=False).tobytes(),
            logprobs.astype("<f4", copy=False).tobytes(),
        )


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(RawTokens)


def seal_tokens(key: bytes, tokens: RawTokens, tenant: str, event_id: str, choice: int) -> bytes:
    """AES-256-GCM under ``key``, 32 bytes, bound to the choice: a nonce and the ciphertext.

    A trajectory has few choices, so that nonces may be random.
    """
    nonce = os.urandom(_NONCE_SIZE)
    return nonce + AESGCM(key).encrypt(nonce, _encoder.encode(tokens), _context(tenant, event_id, choice))


def open_tokens(key: bytes, sealed: bytes, tenant: str, event_id: str, choice: int) -> RawTokens:
    """What ``seal_tokens`` was given.

    Raises:
        SealedUnreadable: another key, another choice's, or changed.
    """
    try:
        return _decoder.decode(AESGCM(key).decrypt(sealed[:_NONCE_SIZE], sealed[_NONCE_SIZE:], _context(tenant, event_id, choice)))
    except (InvalidTag, ValueError) as error:
        raise SealedUnreadable(f"the raw tokens of {event_id}#{choice} do not open with this key") from error


def _context(tenant: str, event_id: str, choice: int) -> bytes:
    return f"headrace.vault.v1\0{tenant}\0{event_id}\0{choice}".encode()

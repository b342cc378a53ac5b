"""Rules for addresses of cryptocurrencies, where they carry a checksum by that; Ethereum's by their form."""

import hashlib
import re

from dataproxy.redact.folding import View
from dataproxy.redact.rules.rule import Hit, Rule, accept, by_pattern, hit

BASE58 = b"123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"
_BECH32 = b"qpzry9x8gf2tvdw0s3jn54khce6mua7l"
_GENERATORS = (0x3B6A57B2, 0x26508E6D, 0x1EA119FA, 0x3D4233DD, 0x2A1462B3)
_CONSTANTS = (1, 0x2BC830A3)
"""Of bech32 (BIP 173) and bech32m (BIP 350)."""


def base58check(address: bytes) -> bool:
    """Whether ``address`` is 21 bytes and the first four of their double SHA-256 (Bitcoin, Litecoin, Dogecoin, Tron)."""
    number = 0
    for byte in address:
        number = number * 58 + BASE58.index(byte)
    if number >> 200:
        return False
    raw = number.to_bytes(25, "big")
    return hashlib.sha256(hashlib.sha256(raw[:21]).digest()).digest()[:4] == raw[21:]


def bech32(address: bytes) -> bool:
    """Whether the checksum of a segregated-witness address holds (BIP 173 and 350)."""
    prefix, _, data = address.lower().rpartition(b"1")
    values = [_BECH32.find(byte) for byte in data]
    if -1 in values:
        return False
    state = 1
    for value in [*(byte >> 5 for byte in prefix), 0, *(byte & 31 for byte in prefix), *values]:
        top = state >> 25
        state = (state & 0x1FFFFFF) << 5 ^ value
        for n, generator in enumerate(_GENERATORS):
            state ^= generator if top >> n & 1 else 0
    return state in _CONSTANTS


def _base58(_: View, match: re.Match[bytes]) -> Hit | None:
    return hit(match) if base58check(match[0]) else None


def _segwit(_: View, match: re.Match[bytes]) -> Hit | None:
    return hit(match, match[0].lower()) if bech32(match[0]) else None


_ALPHABET = rb"1-9A-HJ-NP-Za-km-z"

RULES = (
    Rule("crypto_base58", "CRYPTO", 1.0, 62, rb"[13DLMAT9][" + _ALPHABET + rb"]{25}",
         by_pattern(rb"(?<![A-Za-z0-9])[13DLMAT9][" + _ALPHABET + rb"]{25,34}(?![A-Za-z0-9])", _base58)),
    Rule("crypto_segwit", "CRYPTO", 1.0, 62, rb"(?i)(?:bc|tb|ltc)1[02-9ac-hj-np-z]{11}",
         by_pattern(rb"(?i)(?<![A-Za-z0-9])(?:bc|tb|ltc)1[02-9ac-hj-np-z]{11,87}+(?![A-Za-z0-9])", _segwit)),
    Rule("crypto_ethereum", "CRYPTO", 0.9, 62, rb"0x[0-9a-fA-F]{40}",
         by_pattern(rb"(?<![A-Za-z0-9])0x[0-9a-fA-F]{40}(?![0-9a-zA-Z])", accept)),
    Rule("crypto_monero", "CRYPTO", 0.9, 62, rb"[48][0-9AB][" + _ALPHABET + rb"]{93}",
         by_pattern(rb"(?<![A-Za-z0-9])[48][0-9AB][" + _ALPHABET + rb"]{93}(?![A-Za-z0-9])", accept)),
)  # fmt: skip

"""Check digits: Luhn, IBAN, Chinese resident id. Pure functions of ASCII bytes."""

import re
from datetime import date

IBAN_LENGTHS = {
    "AD": 24, "AE": 23, "AL": 28, "AT": 20, "AZ": 28, "BA": 20, "BE": 16, "BG": 22, "BH": 22, "BR": 29, "BY": 28, "CH": 21,
    "CR": 22, "CY": 28, "CZ": 24, "DE": 22, "DK": 18, "DO": 28, "EE": 20, "EG": 29, "ES": 24, "FI": 18, "FO": 18, "FR": 27,
    "GB": 22, "GE": 22, "GI": 23, "GL": 18, "GR": 27, "GT": 28, "HR": 21, "HU": 28, "IE": 22, "IL": 23, "IQ": 23, "IS": 26,
    "IT": 27, "JO": 30, "KW": 30, "KZ": 20, "LB": 28, "LC": 32, "LI": 21, "LT": 20, "LU": 20, "LV": 21, "LY": 25, "MC": 27,
    "MD": 24, "ME": 22, "MK": 19, "MR": 27, "MT": 31, "MU": 30, "NL": 18, "NO": 15, "PK": 24, "PL": 28, "PS": 29, "PT": 25,
    "QA": 29, "RO": 24, "RS": 22, "SA": 24, "SC": 31, "SD": 18, "SE": 24, "SI": 19, "SK": 24, "SM": 27, "ST": 25, "SV": 28,
    "TL": 23, "TN": 24, "TR": 26, "UA": 29, "VA": 22, "VG": 24, "XK": 20,
}  # fmt: skip
"""Length of an IBAN by country (SWIFT IBAN registry)."""

ALL_DIGITS = frozenset(b"AE AT BA BE CZ DE DK EE ES FI FO GL HR HU IL IS LT LY ME NO PL PT RS SE SI SK TL TN VA XK".split())
"""Countries whose account numbers hold digits only."""

# Issuer prefixes and the lengths that go with them: Visa, Mastercard, Amex, Discover, JCB, Diners, UnionPay, Maestro, Mir.
_CARD_ISSUERS = (
    (re.compile(rb"4"), (13, 16, 19)),
    (re.compile(rb"5[1-5]|222[1-9]|22[3-9]|2[3-6]|27[01]|2720|220[0-4]"), (16,)),
    (re.compile(rb"3[47]"), (15,)),
    (re.compile(rb"6011|64[4-9]|65|35(?:2[89]|[3-8])|62|60|81|82|508"), (16, 17, 18, 19)),
    (re.compile(rb"3(?:0[0-5]|[689])"), (14, 16, 19)),
    (re.compile(rb"2131|1800"), (15,)),
    (re.compile(rb"50(?:18|20|38)|5[6-8]|5893|63|67"), (13, 14, 15, 16, 17, 18, 19)),
)
_VALUE = bytes(max(0, byte - 48) % 10 for byte in range(256))
_DOUBLED = bytes(value * 2 - 9 if value > 4 else value * 2 for value in _VALUE)
_BASE_36 = {ord(character): str(number) for number, character in enumerate("0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ")}
_CN_WEIGHTS = (7, 9, 10, 5, 8, 4, 2, 1, 6, 3, 7, 9, 10, 5, 8, 4, 2)


def luhn(digits: bytes) -> bool:
    """Whether the last digit is the check digit of the others (ISO/IEC 7812-1)."""
    alone, doubled = digits[::-2], digits[-2::-2]
    return (sum(alone.translate(_VALUE)) + sum(doubled.translate(_DOUBLED))) % 10 == 0


def card_number(digits: bytes) -> bool:
    """Whether ``digits`` has an issuer's prefix, a length that issuer uses, and a valid check digit."""
    if not luhn(digits) or len(set(digits)) == 1:
        return False
    return any(len(digits) in lengths and prefix.match(digits) for prefix, lengths in _CARD_ISSUERS)


def iban(value: bytes) -> bool:
    """Whether ``value`` (capitals and digits, no spaces) has its country's length and the check digits (ISO 13616)."""
    if len(value) != IBAN_LENGTHS.get(value[:2].decode()):
        return False
    if value[:2] in ALL_DIGITS and not value[4:].isdigit():
        return False
    return int("".join(map(_BASE_36.__getitem__, value[4:] + value[:4]))) % 97 == 1


def cn_resident_id(value: bytes) -> bool:
    """Whether ``value`` (17 digits and a digit or X) has a possible birthday and the check character (GB 11643)."""
    try:
        born = date(int(value[6:10]), int(value[10:12]), int(value[12:14]))
    except ValueError:
        return False
    total = sum(weight * (byte - 48) for weight, byte in zip(_CN_WEIGHTS, value, strict=False))
    return born.year >= 1900 and value[17:].upper() == b"10X98765432"[total % 11 : total % 11 + 1]

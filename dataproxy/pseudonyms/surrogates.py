"""One surrogate for one value: of the same kind and form, and where there are such of a range that is nobody's.

Everything in a value that is no letter or digit stays where it is: separators, quotes, escapes. So a surrogate fits wherever its
value did (a number stays a number, JSON stays JSON), and each spelling of the value has one of the surrogate.
"""

import re
from random import Random
from typing import Final

from dataproxy.pseudonyms.names import CHINESE_FIRST, CHINESE_REST, FIRST, LAST, ORGS, PLACES

_KEPT = re.compile(r"\\u[0-9a-fA-F]{4}|\\.|%[0-9a-fA-F]{2}|&#?[0-9A-Za-z]+;", re.DOTALL)
"""Escapes; their letters are no text."""
_PLAIN = re.compile(r"[\x20-\x7e]+")
_WORDS = re.compile(r"[^\W\d_]+")
_CARD_ZEROS = 5
_AREAS = ("212", "305", "415", "512", "617", "702", "808", "907")
_NOBODYS_NETS = ("192.0.2", "198.51.100", "203.0.113")
"""RFC 5737: for documentation."""
_HEADED: Final = {"API_KEY": 4, "JWT": 3, "CRYPTO": 4, "SECRET": 0}
"""Kinds whose first characters say what they are of, and how many."""


def surrogate(kind: str, value: str, draw: Random) -> str:
    """A surrogate of ``value``, found as ``kind``; the same for the same state of ``draw``."""
    if kind == "PERSON":
        return " ".join(person(word, place == 0, draw) for place, word in enumerate(value.split(" ")))
    if kind in ("PLACE", "ORG") and not _is_chinese(value):
        return _cased(draw.choice(PLACES if kind == "PLACE" else ORGS), value)
    make = _MAKERS.get(kind) if _PLAIN.fullmatch(value) and not _KEPT.search(value) else None
    made = make(value, draw) if make is not None else None
    if made is None:
        made = _shaped(value, draw, _HEADED.get(kind, 0))
    return made


def person(word: str, is_first: bool, draw: Random) -> str:
    """One word of a name."""
    if _is_chinese(word):
        return draw.choice(CHINESE_FIRST) + "".join(draw.choice(CHINESE_REST) for _ in word[1:])
    return _WORDS.sub(lambda found: _name(found[0], is_first, draw), word)


def _name(word: str, is_first: bool, draw: Random) -> str:
    if len(word) == 1:
        return _letter(word, draw)
    return _cased(draw.choice(FIRST if is_first else LAST), word)


def _cased(word: str, like: str) -> str:
    return word.upper() if like.isupper() and len(like) > 1 else word.lower() if like.islower() else word


def _is_chinese(text: str) -> bool:
    return any("\u4e00" <= character <= "\u9fff" for character in text)


def _letter(character: str, draw: Random) -> str:
    letter = draw.choice("abcdefghijklmnopqrstuvwxyz")
    return letter.upper() if character.isupper() else letter


def _digit(character: str, draw: Random, is_first: bool) -> str:
    return draw.choice("123456789") if is_first and character != "0" else draw.choice("0123456789")


def _shaped(value: str, draw: Random, head: int = 0) -> str:
    """``value`` with other letters and digits; ``head`` characters and escapes stay, as do the lines around a key."""
    made, at = [], 0
    is_first = True
    while at < len(value):
        kept = _KEPT.match(value, at)
        line = value.startswith("-----", at)
        end = value.find("-----", at + 5) + 5 if line else 0
        if at < head or kept or end > 5:
            piece = value[at : end if end > 5 else kept.end() if kept else at + 1]
        else:
            character = value[at]
            digit, letter = character.isdigit(), character.isalpha()
            piece = _digit(character, draw, is_first) if digit else _letter(character, draw) if letter else character
            is_first = False
        made.append(piece)
        at += len(piece)
    return "".join(made)


def _with_digits(value: str, digits: str) -> str:
    """``value`` with its digits replaced, in order."""
    given = iter(digits)
    return "".join(next(given) if character.isdigit() else character for character in value)


def _digits(value: str) -> str:
    return "".join(character for character in value if character.isdigit())


def _email(value: str, draw: Random) -> str | None:
    local = f"{draw.choice(FIRST)}.{draw.choice(LAST)}{draw.randrange(10, 100)}"
    local = local if value[:1].isupper() and not value.isupper() else local.lower()
    made = f"{local}@example.{draw.choice(('com', 'net', 'org'))}"
    return made.upper() if value.isupper() else made


def _phone(value: str, draw: Random) -> str | None:
    """A number of North America from the range for fiction (555-01xx); of others the country stays."""
    digits = _digits(value)
    if len(digits) == 10 or (len(digits) == 11 and digits[0] == "1"):
        return _with_digits(value, digits[:-10] + draw.choice(_AREAS) + "55501" + f"{draw.randrange(100):02d}")
    kept = 3 if value.startswith("+") else 1
    return _with_digits(value, digits[:kept] + "".join(draw.choice("0123456789") for _ in digits[kept:]))


def _card(value: str, draw: Random) -> str | None:
    digits = _digits(value)
    body = digits[0] + "0" * _CARD_ZEROS + "".join(draw.choice("0123456789") for _ in digits[_CARD_ZEROS + 1 : -1])
    return _with_digits(value, body + _luhn_digit(body))


def _luhn_digit(body: str) -> str:
    total = 0
    for place, digit in enumerate(reversed(body)):
        doubled = int(digit) * (2 if place % 2 == 0 else 1)
        total += doubled - 9 if doubled > 9 else doubled
    return str(-total % 10)


def _iban(value: str, draw: Random) -> str | None:
    plain = "".join(character for character in value if character.isalnum())
    account = _shaped(plain[4:].upper(), draw)
    number = "".join(str(int(character, 36)) for character in account + plain[:2].upper() + "00")
    made = f"{plain[:2]}{98 - int(number) % 97:02d}{account}"
    given = iter(made)
    return "".join(next(given) if character.isalnum() else character for character in value)


def _ip(value: str, draw: Random) -> str | None:
    if ":" in value:
        return "2001:db8:" + ":".join(f"{draw.randrange(0x1000, 0x10000):x}" for _ in range(6))  # RFC 3849
    return f"{draw.choice(_NOBODYS_NETS)}.{draw.randrange(1, 255)}"


def _mac(value: str, draw: Random) -> str | None:
    octets = ("02", "00", "5E", *(f"{draw.randrange(256):02X}" for _ in range(3)))
    made = value[2].join(octets)
    return made.lower() if value.islower() or not any(map(str.isalpha, value)) else made


def _ssn(value: str, draw: Random) -> str | None:
    """Area 666, which is never given."""
    return _with_digits(value, f"666{draw.randrange(1, 100):02d}{draw.randrange(1, 10000):04d}")


def _connection(value: str, draw: Random) -> str | None:
    scheme, mark, rest = value.partition("://")
    return scheme + mark + _shaped(rest, draw) if mark else None


_MAKERS = {
    "EMAIL": _email,
    "PHONE": _phone,
    "CARD": _card,
    "IBAN": _iban,
    "IP": _ip,
    "MAC": _mac,
    "SSN": _ssn,
    "CONNECTION_STRING": _connection,
}

"""Invented values of each kind that the pattern lane knows, for `bench.redact_cases`. Domains are reserved ones (RFC 2606)."""

import base64
import hashlib
import json
import random
import string
from collections.abc import Callable

from dataproxy.redact.rules.crypto import BASE58

Rng = random.Random


def digits(rng: Rng, count: int) -> str:
    return "".join(rng.choices(string.digits, k=count))


def alnum(rng: Rng, count: int) -> str:
    return rng.choice(string.digits) + "".join(rng.choices(string.ascii_letters + string.digits, k=count - 1))


def _email(rng: Rng) -> str:
    first, last = rng.choice(_FIRST), rng.choice(_LAST)
    local = rng.choice((f"{first}.{last}", f"{first}{rng.randrange(100)}", f"{first[0]}-{last}+shop", f"{last}_{first}"))
    return f"{local}@{rng.choice(_DOMAINS)}"


def _phone(rng: Rng) -> str:
    return rng.choice(_PHONES)(rng)


def _phone_named(rng: Rng) -> str:
    return rng.choice((f"{rng.choice(_AREAS)}555{digits(rng, 4)}", f"555-{digits(rng, 4)}", f"6{digits(rng, 8)}"))


def _us(rng: Rng) -> str:
    area, rest = rng.choice(_AREAS), f"01{digits(rng, 2)}"
    return rng.choice(
        (f"({area}) 555-{rest}", f"{area}-555-{rest}", f"{area}.555.{rest}", f"+1 {area} 555 {rest}", f"+1{area}555{rest}")
    )


def _uk(rng: Rng) -> str:
    return rng.choice((f"+44 20 7946 0{digits(rng, 3)}", f"020 7946 0{digits(rng, 3)}", f"07700 900{digits(rng, 3)}"))


def _german(rng: Rng) -> str:
    return rng.choice((f"+49 30 23125{digits(rng, 3)}", f"030 23125 {digits(rng, 3)}", f"0171/39200{digits(rng, 2)}"))


def _french(rng: Rng) -> str:
    pairs = " ".join(digits(rng, 2) for _ in range(3))
    return rng.choice((f"06 39 {pairs}", f"+33 6 39 {pairs}", f"01.99.{pairs.replace(' ', '.')}"))


def _chinese(rng: Rng) -> str:
    number = f"1{rng.choice('3578')}{rng.choice('012356789')}{digits(rng, 8)}".replace("154", "155").replace("179", "177")
    return rng.choice((number, f"{number[:3]} {number[3:7]} {number[7:]}", f"+86 {number}", f"010-6{digits(rng, 7)}"))


def _card(rng: Rng) -> str:
    prefix, length = rng.choice((("4", 16), ("51", 16), ("2221", 16), ("34", 15), ("6011", 16), ("62", 16), ("3530", 16)))
    number = _with_luhn(prefix + digits(rng, length - len(prefix) - 1))
    return rng.choice((number, _grouped(number, " "), _grouped(number, "-")))


def _grouped(number: str, separator: str) -> str:
    sizes = (4, 6, 5) if len(number) == 15 else (4, 4, 4, 4)
    ends = [sum(sizes[: n + 1]) for n in range(len(sizes))]
    return separator.join(number[end - size : end] for size, end in zip(sizes, ends, strict=True))


def _with_luhn(number: str) -> str:
    doubled = [int(d) * 2 if n % 2 == 0 else int(d) for n, d in enumerate(reversed(number))]
    return number + str(-sum(d - 9 if d > 9 else d for d in doubled) % 10)


def _iban(rng: Rng) -> str:
    country, length = rng.choice((("DE", 22), ("FR", 27), ("GB", 22), ("ES", 24), ("NL", 18), ("IT", 27)))
    bank = {"GB": "WEST", "NL": "ABNA", "IT": "X"}.get(country, "")
    account = bank + digits(rng, length - 4 - len(bank))
    check = 98 - int("".join(str(int(c, 36)) for c in account + country + "00")) % 97
    value = f"{country}{check:02d}{account}"
    return rng.choice((value, " ".join(value[n : n + 4] for n in range(0, len(value), 4))))


def _api_key(rng: Rng) -> str:
    return rng.choice(
        (
            f"sk-{alnum(rng, 32)}", f"sk-ant-api03-{alnum(rng, 40)}", f"hr_{alnum(rng, 43)}", f"ghp_{alnum(rng, 36)}",
            "AKIA" + "".join(rng.choices(string.ascii_uppercase + string.digits, k=16)), f"AIza{alnum(rng, 35)}",
            f"xoxb-{digits(rng, 11)}-{alnum(rng, 20)}", f"sk_live_{alnum(rng, 24)}",
        )
    )  # fmt: skip


def _jwt(rng: Rng) -> str:
    parts = ({"alg": rng.choice(("HS256", "RS256")), "typ": "JWT"}, {"sub": digits(rng, 6), "iat": rng.randrange(10**9)})
    coded = [base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=").decode() for part in parts]
    return ".".join((*coded, alnum(rng, 43)))


def _private_key(rng: Rng) -> str:
    name = rng.choice(("RSA ", "EC ", "OPENSSH ", ""))
    body = "\n".join(alnum(rng, 64) for _ in range(rng.randrange(2, 8)))
    return f"-----BEGIN {name}PRIVATE KEY-----\n{body}\n-----END {name}PRIVATE KEY-----"


def _connection(rng: Rng) -> str:
    scheme = rng.choice(("postgres", "mysql", "mongodb+srv", "redis", "amqp"))
    return f"{scheme}://{rng.choice(_FIRST)}:{alnum(rng, 12)}@db{rng.randrange(9)}.example.com:{rng.randrange(1000, 9999)}/main"


def _ip(rng: Rng) -> str:
    return f"{rng.randrange(11, 100)}.{rng.randrange(256)}.{rng.randrange(256)}.{rng.randrange(1, 255)}"


_FIRST = ("ana", "tom", "li", "eva", "omar", "nina", "josé", "mia", "ravi", "sören")
_LAST = ("smith", "garcia", "wang", "müller", "rossi", "novak", "okafor", "tanaka")
_DOMAINS = ("example.com", "example.org", "mail.example.net", "post.example", "my-shop.example.com")
_AREAS = ("212", "415", "617", "303")
_PHONES: tuple[Callable[[Rng], str], ...] = (_us, _uk, _german, _french, _chinese)


def _ipv6(rng: Rng) -> str:
    return "2001:db8:" + ":".join(f"{rng.randrange(1, 1 << 16):x}" for _ in range(6))


def _mac(rng: Rng) -> str:
    return rng.choice(":-").join(f"{rng.randrange(256):02x}" for _ in range(6))


def _ssn(rng: Rng) -> str:
    return f"{rng.randrange(100, 600):03d}-{rng.randrange(10, 99)}-{rng.randrange(1000, 9999)}"


def _itin(rng: Rng) -> str:
    return f"9{digits(rng, 2)}-{rng.randrange(70, 89)}-{digits(rng, 4)}"


def _passport(rng: Rng) -> str:
    return rng.choice((f"{rng.choice('ABEGKX')}{digits(rng, 8)}", f"C{digits(rng, 7)}", digits(rng, 9)))


def _cn_id(rng: Rng) -> str:
    value = f"110105{rng.randrange(1950, 2006)}{rng.randrange(1, 13):02d}{rng.randrange(1, 29):02d}{digits(rng, 3)}"
    total = sum(w * int(d) for w, d in zip((7, 9, 10, 5, 8, 4, 2, 1, 6, 3, 7, 9, 10, 5, 8, 4, 2), value, strict=True))
    return value + "10X98765432"[total % 11]


def _crypto(rng: Rng) -> str:
    return rng.choice((_bitcoin(rng), f"0x{rng.getrandbits(160):040x}"))


def _bitcoin(rng: Rng) -> str:
    raw = bytes((rng.choice((0, 5)),)) + rng.randbytes(20)
    number = int.from_bytes(raw + hashlib.sha256(hashlib.sha256(raw).digest()).digest()[:4], "big")
    found = ""
    while number:
        number, rest = divmod(number, 58)
        found = chr(BASE58[rest]) + found
    return ("1" if raw[0] == 0 else "") + found


def _url(rng: Rng) -> str:
    return f"https://{rng.choice(_FIRST)}:{alnum(rng, 10)}@files{rng.randrange(9)}.example.org/in/{rng.randrange(99)}"


def _env(rng: Rng) -> str:
    return alnum(rng, rng.randrange(10, 40))


def _bearer(rng: Rng) -> str:
    return f"{alnum(rng, 24)}.{alnum(rng, 12)}9a"


KINDS: dict[str, Callable[[Rng], str]] = {
    "EMAIL": _email, "PHONE": _phone, "PHONE_NAMED": _phone_named, "CARD": _card, "IBAN": _iban, "IP": _ip, "IP_V6": _ipv6,
    "MAC": _mac, "SSN": _ssn, "SSN_ITIN": _itin, "PASSPORT": _passport, "CN_ID": _cn_id, "CRYPTO": _crypto, "API_KEY": _api_key,
    "JWT": _jwt, "PRIVATE_KEY": _private_key, "CONNECTION_STRING": _connection, "CONNECTION_STRING_URL": _url, "SECRET_ENV": _env,
    "SECRET_BEARER": _bearer,
}  # fmt: skip
"""A generator for each; what stands behind an underscore is a form of the kind before it."""

"""Seeded cases for the pattern lane: values of each kind, the disguises they come in, texts around them, and look-alikes.

Used by `bench.redact` and by the unit tests. All values are invented; domains are reserved ones (RFC 2606).
"""

import base64
import json
import random
import string
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from urllib.parse import quote

Rng = random.Random


@dataclass(slots=True, frozen=True)
class Case:
    """``before + shown + after`` is the text; ``shown`` is the value in its disguise."""

    kind: str
    disguise: str
    before: str
    shown: str
    after: str

    @property
    def text(self) -> str:
        """The whole text."""
        return self.before + self.shown + self.after


def cases(kind: str, count: int, seed: int) -> list[Case]:
    """``count`` cases of ``kind``, the disguises in turn."""
    rng = random.Random(f"{kind}-{seed}")
    names = [name for name in DISGUISES if name not in _UNFIT.get(kind, ())]
    return [_case(rng, kind, names[n % len(names)]) for n in range(count)]


def _case(rng: Rng, kind: str, disguise: str) -> Case:
    value = KINDS[kind](rng)
    before, shown, after = DISGUISES[disguise](rng, value)
    if kind == "PHONE_NAMED":
        before = before + rng.choice(("phone: ", "call me at ", "电话", "Tel. "))
    return Case(kind.partition("_NAMED")[0], disguise, before, shown, after)


def _digits(rng: Rng, count: int) -> str:
    return "".join(rng.choices(string.digits, k=count))


def _alnum(rng: Rng, count: int) -> str:
    return rng.choice(string.digits) + "".join(rng.choices(string.ascii_letters + string.digits, k=count - 1))


def _email(rng: Rng) -> str:
    first, last = rng.choice(_FIRST), rng.choice(_LAST)
    local = rng.choice((f"{first}.{last}", f"{first}{rng.randrange(100)}", f"{first[0]}-{last}+shop", f"{last}_{first}"))
    return f"{local}@{rng.choice(_DOMAINS)}"


def _phone(rng: Rng) -> str:
    return rng.choice(_PHONES)(rng)


def _phone_named(rng: Rng) -> str:
    return rng.choice((f"{rng.choice(_AREAS)}555{_digits(rng, 4)}", f"555-{_digits(rng, 4)}", f"6{_digits(rng, 8)}"))


def _us(rng: Rng) -> str:
    area, rest = rng.choice(_AREAS), f"01{_digits(rng, 2)}"
    return rng.choice(
        (f"({area}) 555-{rest}", f"{area}-555-{rest}", f"{area}.555.{rest}", f"+1 {area} 555 {rest}", f"+1{area}555{rest}")
    )


def _uk(rng: Rng) -> str:
    return rng.choice((f"+44 20 7946 0{_digits(rng, 3)}", f"020 7946 0{_digits(rng, 3)}", f"07700 900{_digits(rng, 3)}"))


def _german(rng: Rng) -> str:
    return rng.choice((f"+49 30 23125{_digits(rng, 3)}", f"030 23125 {_digits(rng, 3)}", f"0171/39200{_digits(rng, 2)}"))


def _french(rng: Rng) -> str:
    pairs = " ".join(_digits(rng, 2) for _ in range(3))
    return rng.choice((f"06 39 {pairs}", f"+33 6 39 {pairs}", f"01.99.{pairs.replace(' ', '.')}"))


def _chinese(rng: Rng) -> str:
    number = f"1{rng.choice('3578')}{rng.choice('012356789')}{_digits(rng, 8)}".replace("154", "155").replace("179", "177")
    return rng.choice((number, f"{number[:3]} {number[3:7]} {number[7:]}", f"+86 {number}", f"010-6{_digits(rng, 7)}"))


def _card(rng: Rng) -> str:
    prefix, length = rng.choice((("4", 16), ("51", 16), ("2221", 16), ("34", 15), ("6011", 16), ("62", 16), ("3530", 16)))
    digits = _with_luhn(prefix + _digits(rng, length - len(prefix) - 1))
    return rng.choice((digits, _grouped(digits, " "), _grouped(digits, "-")))


def _grouped(digits: str, separator: str) -> str:
    sizes = (4, 6, 5) if len(digits) == 15 else (4, 4, 4, 4)
    ends = [sum(sizes[: n + 1]) for n in range(len(sizes))]
    return separator.join(digits[end - size : end] for size, end in zip(sizes, ends, strict=True))


def _with_luhn(digits: str) -> str:
    doubled = [int(d) * 2 if n % 2 == 0 else int(d) for n, d in enumerate(reversed(digits))]
    return digits + str(-sum(d - 9 if d > 9 else d for d in doubled) % 10)


def _iban(rng: Rng) -> str:
    country, length = rng.choice((("DE", 22), ("FR", 27), ("GB", 22), ("ES", 24), ("NL", 18), ("IT", 27)))
    bank = {"GB": "WEST", "NL": "ABNA", "IT": "X"}.get(country, "")
    account = bank + _digits(rng, length - 4 - len(bank))
    check = 98 - int("".join(str(int(c, 36)) for c in account + country + "00")) % 97
    value = f"{country}{check:02d}{account}"
    return rng.choice((value, " ".join(value[n : n + 4] for n in range(0, len(value), 4))))


def _api_key(rng: Rng) -> str:
    return rng.choice(
        (
            f"sk-{_alnum(rng, 32)}", f"sk-ant-api03-{_alnum(rng, 40)}", f"hr_{_alnum(rng, 43)}", f"ghp_{_alnum(rng, 36)}",
            "AKIA" + "".join(rng.choices(string.ascii_uppercase + string.digits, k=16)), f"AIza{_alnum(rng, 35)}",
            f"xoxb-{_digits(rng, 11)}-{_alnum(rng, 20)}", f"sk_live_{_alnum(rng, 24)}",
        )
    )  # fmt: skip


def _jwt(rng: Rng) -> str:
    parts = ({"alg": rng.choice(("HS256", "RS256")), "typ": "JWT"}, {"sub": _digits(rng, 6), "iat": rng.randrange(10**9)})
    coded = [base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=").decode() for part in parts]
    return ".".join((*coded, _alnum(rng, 43)))


def _private_key(rng: Rng) -> str:
    name = rng.choice(("RSA ", "EC ", "OPENSSH ", ""))
    body = "\n".join(_alnum(rng, 64) for _ in range(rng.randrange(2, 8)))
    return f"-----BEGIN {name}PRIVATE KEY-----\n{body}\n-----END {name}PRIVATE KEY-----"


def _connection(rng: Rng) -> str:
    scheme = rng.choice(("postgres", "mysql", "mongodb+srv", "redis", "amqp"))
    return f"{scheme}://{rng.choice(_FIRST)}:{_alnum(rng, 12)}@db{rng.randrange(9)}.example.com:{rng.randrange(1000, 9999)}/main"


def _ip(rng: Rng) -> str:
    return f"{rng.randrange(11, 100)}.{rng.randrange(256)}.{rng.randrange(256)}.{rng.randrange(1, 255)}"


_FIRST = ("ana", "tom", "li", "eva", "omar", "nina", "josé", "mia", "ravi", "sören")
_LAST = ("smith", "garcia", "wang", "müller", "rossi", "novak", "okafor", "tanaka")
_DOMAINS = ("example.com", "example.org", "mail.example.net", "post.example", "my-shop.example.com")
_AREAS = ("212", "415", "617", "303")
_PHONES: tuple[Callable[[Rng], str], ...] = (_us, _uk, _german, _french, _chinese)

KINDS: dict[str, Callable[[Rng], str]] = {
    "EMAIL": _email, "PHONE": _phone, "PHONE_NAMED": _phone_named, "CARD": _card, "IBAN": _iban, "API_KEY": _api_key, "JWT": _jwt,
    "PRIVATE_KEY": _private_key, "CONNECTION_STRING": _connection, "IP": _ip,
}  # fmt: skip

Disguise = Callable[[Rng, str], tuple[str, str, str]]


def _plain(rng: Rng, value: str) -> tuple[str, str, str]:
    return rng.choice(("Here it is: ", "please use ", "(", "my data ", "")), value, rng.choice((" thanks.", ".", ")", ", ok", ""))


def _cjk(rng: Rng, value: str) -> tuple[str, str, str]:
    return rng.choice(("请联系", "我的信息是", "こちら：", "제정보")), value, rng.choice(("谢谢", "。请回复", "です", "입니다"))


def _full_width(_: Rng, value: str) -> tuple[str, str, str]:
    wide = "".join(chr(ord(c) + 0xFEE0) if c.isdigit() and c.isascii() else "＠" if c == "@" else c for c in value)
    return "号码是", wide, "。"


def _escaped(rng: Rng, value: str) -> tuple[str, str, str]:
    return rng.choice(("first\\n", "a\\tb\\t", "line\\r\\n")), json.dumps(value)[1:-1], rng.choice(("\\nnext", '\\"', ""))


def _unicode_escaped(_: Rng, value: str) -> tuple[str, str, str]:
    return '{"x": "', "".join(c if c.isalnum() and c.isascii() else f"\\u{ord(c):04x}" for c in value), '"}'


def _in_json(rng: Rng, value: str) -> tuple[str, str, str]:
    shown = json.dumps(json.dumps(value)[1:-1])[1:-1]
    return '{"arguments": "{\\"to\\": \\"', shown, rng.choice(('\\"}"}', '\\", \\"n\\": 1}"}'))


def _percent(_: Rng, value: str) -> tuple[str, str, str]:
    return "https://shop.example/find?q=", quote(value, safe=""), "&page=2"


def _zero_width(rng: Rng, value: str) -> tuple[str, str, str]:
    at = rng.randrange(1, len(value))
    return "see ", value[:at] + rng.choice("\u200b\u200d\u2060\ufeff\u00ad") + value[at:], " there"


def _html(_: Rng, value: str) -> tuple[str, str, str]:
    return "<td>", value.replace("@", "&#64;").replace("+", "&#x2b;").replace(" ", "&nbsp;"), "</td>"


def _odd_signs(_: Rng, value: str) -> tuple[str, str, str]:
    return "→ ", value.replace("-", "\u2011").replace(" ", "\u00a0"), " ←"


DISGUISES: dict[str, Disguise] = {
    "plain": _plain, "cjk": _cjk, "full-width": _full_width, "escaped": _escaped, "unicode-escaped": _unicode_escaped,
    "json-in-json": _in_json, "percent": _percent, "zero-width": _zero_width, "html": _html, "odd-signs": _odd_signs,
}  # fmt: skip

# A key, a token or a connection string is copied by machines: nobody writes it full-width or with typographic signs.
_UNFIT = {
    "JWT": ("full-width", "odd-signs"), "API_KEY": ("full-width", "odd-signs"), "PRIVATE_KEY": ("full-width", "odd-signs"),
    "CONNECTION_STRING": ("full-width", "odd-signs"), "PHONE_NAMED": ("percent", "unicode-escaped", "html"),
}  # fmt: skip


def look_alike(rng: Rng) -> str:
    """A text with numbers and names in it that are nobody's."""
    return rng.choice(
        (
            f"Order {_digits(rng, 10)} was shipped on 2024-0{rng.randrange(1, 10)}-1{rng.randrange(10)}.",
            f"订单号{_digits(rng, 11)}已发货",
            f"tracking number 1Z{_digits(rng, 16)}",
            f"ts=17{_digits(rng, 8)} level=info took={rng.randrange(9999)}ms id={uuid.UUID(int=rng.getrandbits(128))}",
            f"17{_digits(rng, 11)} 17{_digits(rng, 14)} 17{_digits(rng, 17)}",
            f"sha256:{rng.getrandbits(256):064x}",
            f"commit {rng.getrandbits(160):040x} fixes #{_digits(rng, 5)}",
            f"numpy=={rng.randrange(3)}.{rng.randrange(30)}.{rng.randrange(9)} torch>={rng.randrange(9)}.{rng.randrange(99)}",
            f"version {rng.randrange(9)}.{rng.randrange(99)}.{rng.randrange(99)}.{rng.randrange(999)}",
            f"from 2024-01-02T0{rng.randrange(10)}:11:12.{_digits(rng, 6)}Z to 2024/03/04 10:20:30",
            f"3.{_digits(rng, 15)} {_digits(rng, 3)}.{_digits(rng, 8)} -122.{_digits(rng, 6)}, 37.{_digits(rng, 6)}",
            f"$ {rng.randrange(1, 9)},{_digits(rng, 3)},{_digits(rng, 3)}.{_digits(rng, 2)} of {_digits(rng, 12)} bytes",
            f"@dataclass\nclass A{_digits(rng, 2)}:\n    x: int = 0x{rng.getrandbits(64):016x}",
            f"ISBN 978-{_digits(rng, 1)}-{_digits(rng, 4)}-{_digits(rng, 4)}-{_digits(rng, 1)}",
            f"call_{_alnum(rng, 24)} chatcmpl-{rng.getrandbits(192):048x}",
            f"git@github.com:org/repo.git icon@2x.png lodash@4.17.{rng.randrange(30)}",
            f"SELECT * FROM t WHERE id IN ({_digits(rng, 6)}, {_digits(rng, 6)}, {_digits(rng, 6)})",
            f"loss 0.{_digits(rng, 4)} lr {rng.randrange(1, 9)}e-05 step {_digits(rng, 5)}/{_digits(rng, 6)} 01-02-2024 12",
            "\n".join(" ".join(_digits(rng, 4) for _ in range(6)) for _ in range(3)),
        )
    )

"""Seeded cases for the pattern lane: values of each kind, the disguises they come in, texts around them, and look-alikes.

Used by `bench.redact` and by the unit tests. All values are invented; domains are reserved ones (RFC 2606).
"""

import json
import random
import re
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from urllib.parse import quote

from bench.redact_values import KINDS, Rng, alnum, digits

_FORM = re.compile(r"_(?:NAMED|V6|ITIN|URL|ENV|BEARER)$")
_LEADS = {
    "PHONE_NAMED": ("phone: ", "call me at ", "电话", "Tel. "),
    "PASSPORT": ("passport no. ", "Passport number: ", "护照号码：", "my passport is "),
    "SECRET_ENV": ("DB_PASSWORD=", "export API_TOKEN=", "SECRET_KEY=", "STRIPE_SECRET="),
    "SECRET_BEARER": ("Authorization: Bearer ", "authorization: bearer "),
}
"""What stands before a value that nobody would know without."""


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
    if kind in _LEADS:
        before = before + rng.choice(_LEADS[kind])
    return Case(_FORM.sub("", kind), disguise, before, shown, after)


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

_COPIED = ("full-width", "odd-signs")
"""A key, a token or an address for machines is copied: nobody writes it full-width or with typographic signs."""
_LED = ("percent", "unicode-escaped", "html", "json-in-json")
"""The words before a value would be disguised as well."""
_UNFIT = {
    **dict.fromkeys(("JWT", "API_KEY", "PRIVATE_KEY", "CONNECTION_STRING", "CONNECTION_STRING_URL"), _COPIED),
    **dict.fromkeys(("CRYPTO", "MAC", "IP_V6"), _COPIED),
    "PHONE_NAMED": _LED[:3], "PASSPORT": _LED[:3], "SECRET_ENV": (*_COPIED, *_LED), "SECRET_BEARER": (*_COPIED, *_LED),
}  # fmt: skip


def look_alike(rng: Rng) -> str:
    """A text with numbers and names in it that are nobody's."""
    return rng.choice(
        (
            f"Order {digits(rng, 10)} was shipped on 2024-0{rng.randrange(1, 10)}-1{rng.randrange(10)}.",
            f"订单号{digits(rng, 11)}已发货",
            f"tracking number 1Z{digits(rng, 16)}",
            f"ts=17{digits(rng, 8)} level=info took={rng.randrange(9999)}ms id={uuid.UUID(int=rng.getrandbits(128))}",
            f"17{digits(rng, 11)} 17{digits(rng, 14)} 17{digits(rng, 17)}",
            f"sha256:{rng.getrandbits(256):064x}",
            f"commit {rng.getrandbits(160):040x} fixes #{digits(rng, 5)}",
            f"numpy=={rng.randrange(3)}.{rng.randrange(30)}.{rng.randrange(9)} torch>={rng.randrange(9)}.{rng.randrange(99)}",
            f"version {rng.randrange(9)}.{rng.randrange(99)}.{rng.randrange(99)}.{rng.randrange(999)}",
            f"from 2024-01-02T0{rng.randrange(10)}:11:12.{digits(rng, 6)}Z to 2024/03/04 10:20:30",
            f"3.{digits(rng, 15)} {digits(rng, 3)}.{digits(rng, 8)} -122.{digits(rng, 6)}, 37.{digits(rng, 6)}",
            f"$ {rng.randrange(1, 9)},{digits(rng, 3)},{digits(rng, 3)}.{digits(rng, 2)} of {digits(rng, 12)} bytes",
            f"@dataclass\nclass A{digits(rng, 2)}:\n    x: int = 0x{rng.getrandbits(64):016x}",
            f"ISBN 978-{digits(rng, 1)}-{digits(rng, 4)}-{digits(rng, 4)}-{digits(rng, 1)}",
            f"call_{alnum(rng, 24)} chatcmpl-{rng.getrandbits(192):048x}",
            f"git@github.com:org/repo.git icon@2x.png lodash@4.17.{rng.randrange(30)}",
            f"SELECT * FROM t WHERE id IN ({digits(rng, 6)}, {digits(rng, 6)}, {digits(rng, 6)})",
            f"loss 0.{digits(rng, 4)} lr {rng.randrange(1, 9)}e-05 step {digits(rng, 5)}/{digits(rng, 6)} 01-02-2024 12",
            "\n".join(" ".join(digits(rng, 4) for _ in range(6)) for _ in range(3)),
        )
    )

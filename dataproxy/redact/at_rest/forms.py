"""The byte forms one value may have on a disk, and one Hyperscan database that looks for all of them at once."""

import base64
import html
import json
from collections.abc import Iterator, Sequence
from urllib.parse import quote

import hyperscan

_CHUNK = 16 << 20
_OVERLAP = 4096
_FEW_DIGITS = 7


def forms(value: str) -> Iterator[tuple[str, bytes, bool]]:
    """Name, bytes, and whether case is ignored, of each form of ``value``."""
    raw = value.encode()
    yield "utf-8", raw, True
    yield "utf-16-le", value.encode("utf-16-le"), True
    yield "utf-16-be", value.encode("utf-16-be"), True
    yield "hex", raw.hex().encode(), True
    yield "json", json.dumps(value)[1:-1].encode(), True
    yield "json-unicode", "".join(f"\\u{ord(c):04x}" if ord(c) < 0x10000 else c for c in value).encode(), True
    yield "json-symbols", "".join(c if c.isalnum() else f"\\u{ord(c):04x}" for c in value).encode(), True
    yield "percent", quote(value, safe="").encode(), True
    yield "html", html.escape(value).encode(), True
    digits = "".join(c for c in value if c.isdigit())
    if len(digits) >= max(_FEW_DIGITS, len(value) // 2):
        yield "no separators", "".join(c for c in value if c.isalnum()).encode(), True
    for shift in range(3):
        yield f"base64+{shift}", _base64(raw, shift), False
        yield f"base64url+{shift}", _base64(raw, shift).translate(bytes.maketrans(b"+/", b"-_")), False


def _base64(raw: bytes, shift: int) -> bytes:
    """The characters that ``raw`` surely has inside a longer base64 text when it begins ``shift`` bytes into a group."""
    text = base64.b64encode(b"\0" * shift + raw).rstrip(b"=")
    return text[(0, 2, 3)[shift] : (shift + len(raw)) * 8 // 6]


class Matcher:
    """Finds any form of any of ``values`` in bytes."""

    def __init__(self, values: Sequence[str]) -> None:
        self._names: list[list[tuple[int, str]]] = []
        known: dict[tuple[bytes, bool], int] = {}
        for index, value in enumerate(values):
            for name, form, caseless in forms(value):
                key = (form.lower() if caseless else form, caseless)
                if key not in known:
                    known[key] = len(self._names)
                    self._names.append([])
                self._names[known[key]].append((index, name))
        self._database = hyperscan.Database(mode=hyperscan.HS_MODE_BLOCK)
        self._database.compile(
            expressions=["".join(f"\\x{byte:02x}" for byte in form).encode() for form, _ in known],
            ids=list(known.values()),
            flags=[hyperscan.HS_FLAG_SINGLEMATCH | (hyperscan.HS_FLAG_CASELESS if c else 0) for _, c in known],
        )

    def search(self, data: bytes) -> set[tuple[int, str]]:
        """Index of the value and name of the form for each that occurs in ``data``."""
        seen: set[int] = set()

        def note(pattern: int, start: int, end: int, flags: int, context: object) -> None:
            seen.add(pattern)

        for start in range(0, len(data), _CHUNK):
            self._database.scan(data[start : start + _CHUNK + _OVERLAP], match_event_handler=note)
        return {hit for pattern in seen for hit in self._names[pattern]}

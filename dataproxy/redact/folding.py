"""Folds text to one byte a character, so that rules match values however they are written.

Full-width and other digits become ASCII digits, dashes ``-``, odd spaces a space, zero-width characters vanish, letters of
alphabets `LETTER`, everything else (CJK, emoji) `OTHER`: so a card number right after a Chinese character stands at a border.
Escapes are undone layer by layer, each layer a `View` of its own. Every byte of a view knows its character in the text.
"""

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from urllib.parse import unquote

import numpy as np
from numpy.typing import NDArray

LETTER = 0xE9
OTHER = 0x80
_GONE = 0
_FIRST_UNFOLDED = 0x20000
_MAX_LAYERS = 4
_FOLDED = ((0x80, 0x3400), (0xA000, 0xAC00), (0xF900, _FIRST_UNFOLDED))
"""Code points that may fold to something; between them lie ideographs, Hangul syllables and surrogates only."""
_DASHES = frozenset("\u2212\u2043\u30fb\u00b7\u2011\ufe58")
_CJK = ((0x1100, 0x11FF), (0x2E80, 0xA4CF), (0xA960, 0xA97F), (0xAC00, 0xD7FF), (0xF900, 0xFAFF), (0xFE30, 0xFE4F))


@dataclass(slots=True, frozen=True)
class View:
    """One reading of a text: ``data`` [n] bytes; ``starts`` [n + 1] character of ``text`` behind each, or None where equal.

    ``context`` is what stands before the text, for example the JSON key it is the value of.
    """

    text: str
    data: bytes
    starts: NDArray[np.int64] | None
    layer: int
    context: str = ""

    def span(self, start: int, end: int) -> tuple[int, int]:
        """The characters [start, end) of the text behind bytes [start, end) of the view."""
        if self.starts is None:
            return start, end
        return int(self.starts[start]), int(self.starts[end])

    def before(self, start: int, length: int) -> str:
        """Up to ``length`` characters that stand before byte ``start``, the context included, in lower case.

        They are of the text, not of the view, so that words of every script are there; escapes among them are undone.
        """
        at = self.span(start, start)[0]
        head = self.text[max(0, at - length) : at]
        if self.layer:
            head = _unescaped(head)
        return f"{self.context} {head}".lower() if at < length else head.lower()


def views(text: str, context: str = "") -> Iterator[View]:
    """The readings of ``text``: as it stands, then with one layer of escapes undone after another while that changes it."""
    data, starts = _fold(text)
    for layer in range(_MAX_LAYERS):
        yield View(text, data, starts, layer, context)
        undone = _undo_escapes(data)
        if undone == data:
            return
        if starts is None:
            starts = np.arange(len(data) + 1, dtype=np.int64)
        data, starts = _drop_gone(np.frombuffer(undone, np.uint8), starts)


def _unescaped(text: str) -> str:
    return unquote(_ESCAPE.sub(_character, text)) if "\\" in text or "%" in text else text


def _character(match: re.Match[str]) -> str:
    code = match[1] or match[2]
    return chr(int(code, 16)) if code else _LETTERS.get(match[3], match[3])


def _fold(text: str) -> tuple[bytes, NDArray[np.int64] | None]:
    if text.isascii():
        return text.replace("\0", "\1").encode(), None
    points = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32)
    folded = _TABLE[np.minimum(points, _FIRST_UNFOLDED)]
    folded[(points >= 0xE0000) & (points < 0xE1000)] = _GONE
    return _drop_gone(folded, np.arange(len(text) + 1, dtype=np.int64))


def _drop_gone(data: NDArray[np.uint8], starts: NDArray[np.int64]) -> tuple[bytes, NDArray[np.int64]]:
    kept = np.flatnonzero(data)
    return data[kept].tobytes(), np.append(starts[kept], starts[-1])


def _fold_character(character: str) -> int:
    point, category = ord(character), unicodedata.category(character)
    if category in ("Cf", "Mn", "Me") or point in range(0xFE00, 0xFE10):
        return _GONE
    digit = unicodedata.decimal(character, None)
    if digit is not None:
        return ord("0") + digit
    if category == "Pd" or character in _DASHES:
        return ord("-")
    if category == "Zs":
        return ord(" ")
    plain = unicodedata.normalize("NFKC", character)
    if len(plain) == 1 and plain.isascii():
        return ord(plain)
    if category.startswith("L") and not any(low <= point <= high for low, high in _CJK):
        return LETTER
    return OTHER


def _build_table() -> NDArray[np.uint8]:
    """[0x20001] uint8: the byte each code point folds to; the last entry stands for all above."""
    table = np.full(_FIRST_UNFOLDED + 1, OTHER, np.uint8)
    table[:128] = np.arange(128)
    table[0] = 1
    for first, last in _FOLDED:
        table[first:last] = [_fold_character(chr(point)) for point in range(first, last)]
    return table


_TABLE = _build_table()

_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|x([0-9a-fA-F]{2})|([nrt\"'/\\]))")
_LETTERS = {"n": "\n", "r": "\r", "t": "\t"}

# Undone in place: what an escape stands for, then `_GONE` up to its old length, so that positions hold until they are dropped.
_SIMPLE = (
    (b"\\n", b"\n\0"), (b"\\r", b"\r\0"), (b"\\t", b"\t\0"), (b'\\"', b'"\0'), (b"\\'", b"'\0"),
    (b"\\/", b"/\0"),
)  # fmt: skip
_BACKSLASH_CODE = re.compile(rb"\\(?:u([0-9a-fA-F]{4})|x([0-9a-fA-F]{2})|u\{([0-9a-fA-F]{1,5})\})")
_PERCENT = re.compile(rb"(?:%[0-9a-fA-F]{2})+")
_ENTITY = re.compile(rb"&(?:#([0-9]{1,6})|#[xX]([0-9a-fA-F]{1,5})|([a-zA-Z]{2,6}));")
_NAMED = {b"amp": b"&", b"quot": b'"', b"apos": b"'", b"lt": b"<", b"gt": b">", b"nbsp": b" ", b"commat": b"@",
          b"period": b".", b"plus": b"+", b"lowbar": b"_", b"hyphen": b"-", b"num": b"#", b"colon": b":", b"sol": b"/"}  # fmt: skip


def _undo_escapes(data: bytes) -> bytes:
    if b"\\" in data:
        data = _BACKSLASH_CODE.sub(_code, data.replace(b"\\\\", b"\\\0"))
        for escape, plain in _SIMPLE:
            data = data.replace(escape, plain)
    if b"%" in data:
        data = _PERCENT.sub(_percent, data)
    if b"&" in data:
        data = _ENTITY.sub(_entity, data)
    return data


def _padded(byte: int, length: int) -> bytes:
    return bytes((byte,)).ljust(length, b"\0")


def _fold_point(point: int) -> int:
    return int(_TABLE[min(point, _FIRST_UNFOLDED)])


def _code(match: re.Match[bytes]) -> bytes:
    digits = match[1] or match[2] or match[3]
    return _padded(_fold_point(int(digits, 16)), len(match[0]))


def _percent(match: re.Match[bytes]) -> bytes:
    characters = bytes.fromhex(match[0].replace(b"%", b"").decode()).decode("utf-8", "surrogateescape")
    return b"".join(_padded(_fold_point(ord(c)), 3 * _utf8_length(ord(c))) for c in characters)


def _utf8_length(point: int) -> int:
    if point < 0x80 or 0xDC80 <= point <= 0xDCFF:
        return 1
    return 2 if point < 0x800 else 3 if point < 0x10000 else 4


def _entity(match: re.Match[bytes]) -> bytes:
    if match[3]:
        plain = _NAMED.get(match[3].lower())
        return match[0] if plain is None else plain.ljust(len(match[0]), b"\0")
    return _padded(_fold_point(int(match[1]) if match[1] else int(match[2], 16)), len(match[0]))

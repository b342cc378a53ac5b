"""Recognises the head that a connection brought before: the next one mostly differs in Content-Length only, and needs no parser.

Used on both sides. A head is taken for known only if every byte outside the digits of its Content-Length is the same as in one that
the parser has accepted, and if exactly its body follows: then it means the same. Anything else goes through the parser.
"""

import re
from typing import Generic, TypeVar

Meaning = TypeVar("Meaning")
_LENGTH = re.compile(rb"\r\ncontent-length:[ \t]*([0-9]+)[ \t]*\r\n", re.IGNORECASE)
_MAX_DIGITS = 15


class KnownHead(Generic[Meaning]):
    """One head around the digits of its Content-Length; ``meaning`` is what the parser made of it.

    Example:
        >>> known = KnownHead.of(b"POST / HTTP/1.1\\r\\nContent-Length: 2\\r\\n\\r\\nab", "a post")
        >>> known.body(b"POST / HTTP/1.1\\r\\nContent-Length: 1\\r\\n\\r\\nc")
        b'c'
    """

    __slots__ = ("_after", "_before", "_num_after", "_start", "meaning")

    def __init__(self, before: bytes, after: bytes, meaning: Meaning) -> None:
        self._before, self._start = before, len(before)
        self._after, self._num_after = after, len(after)
        self.meaning = meaning

    @classmethod
    def of(cls, data: bytes, meaning: Meaning) -> "KnownHead[Meaning] | None":
        """The head that ``data`` begins with; None where it is cut or has no Content-Length."""
        end = data.find(b"\r\n\r\n") + 4
        match = _LENGTH.search(data, 0, end) if end >= 4 else None
        return match and cls(data[: match.start(1)], data[match.end(1) : end], meaning)

    def body(self, data: bytes) -> bytes | None:
        """The body of the message in ``data``, if it is whole, alone, and under this head."""
        if not data.startswith(self._before):
            return None
        start = self._start
        end = data.find(b"\r", start, start + _MAX_DIGITS)  # where there is none, what comes after cannot match
        digits = data[start:end]
        if not (digits.isdigit() and data.startswith(self._after, end)):
            return None
        body_at = end + self._num_after
        return data[body_at:] if len(data) - body_at == int(digits) else None

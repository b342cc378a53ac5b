"""The token side of redaction: the bytes behind exact ids, values found in them, whole tokens overwritten.

Ids are never made anew from redacted text: that would change tokens outside the values. Counts never change.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dataproxy.redact.exchange import Detection, Flags, Ids
from dataproxy.redact.tokens import TokenBytes

_GAP = b"\xff"
"""A byte that UTF-8 never has; it stands for masked tokens when a stream is checked for what is left."""


@dataclass(slots=True, frozen=True)
class TokenStream:
    """The prompt and one output as the model saw them, joined: a value may begin in one and end in the other.

    ``ids`` [L] int32, ``data`` bytes, ``offsets`` [L + 1] into them, ``num_prompt`` tokens of the prompt.
    """

    ids: Ids
    data: bytes
    offsets: NDArray[np.int64]
    num_prompt: int

    @property
    def border(self) -> int:
        """The byte where the prompt ends."""
        return int(self.offsets[self.num_prompt])

    def find(self, detect: Callable[[str], Iterable[Detection]], first: int = 0) -> list[tuple[Detection, int, int]]:
        """Detections in the decoded text from byte ``first`` on with the bytes [start, end) of each.

        Bytes that are no UTF-8 are one character each.
        """
        text = self.data[first:].decode("utf-8", "surrogateescape")
        detections = list(detect(text))
        if not detections:
            return []
        ends = range(len(text) + 1) if text.isascii() else _byte_offsets(text).tolist()
        return [(found, first + ends[found.start], first + ends[found.end]) for found in detections]

    def flags(self, spans: Iterable[tuple[int, int]]) -> Flags:
        """[L] uint8: 1 for every token that shares a byte with one of ``spans``."""
        flags = np.zeros(len(self.ids), np.uint8)
        places = list(spans)
        if not places:
            return flags
        begins, ends = zip(*places, strict=True)
        first = self.offsets[1:].searchsorted(begins, "right").tolist()
        last = self.offsets[:-1].searchsorted(ends, "left").tolist()
        for start, end in zip(first, last, strict=True):
            flags[start:end] = 1
        return flags

    def remaining(self, flags: Flags) -> bytes:
        """The bytes that can still be read once flagged tokens are overwritten; each masked byte is a gap."""
        padded = np.zeros(len(flags) + 2, np.int8)
        padded[1:-1] = flags
        edges = self.offsets[np.flatnonzero(padded[1:] != padded[:-1])].tolist()
        left = bytearray(self.data)
        for start, end in zip(edges[::2], edges[1::2], strict=True):
            left[start:end] = _GAP * (end - start)
        return bytes(left)


def join(tokens: TokenBytes, prompt: Ids, output: Ids) -> TokenStream:
    """The stream of ``prompt`` [P] and ``output`` [N].

    Raises:
        RedactionFailed: an id is not in the table.
    """
    ids = np.concatenate((np.asarray(prompt, np.int32), np.asarray(output, np.int32)))
    data, offsets = tokens.decode(ids)
    return TokenStream(ids, data, offsets, len(prompt))


def overwrite(ids: Ids, flags: Flags, mask_id: int) -> Ids:
    """``ids`` [N] with ``mask_id`` wherever ``flags`` [N] is 1."""
    masked = np.array(ids, np.int32)
    masked[flags.view(np.bool_)] = mask_id
    return masked


def _byte_offsets(text: str) -> NDArray[np.int64]:
    """[len(text) + 1]: where each character begins in the UTF-8 (with surrogateescape) that ``text`` was decoded from."""
    points = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32)
    lengths = 1 + (points >= 0x80).astype(np.int64) + (points >= 0x800) + (points >= 0x10000)
    lengths[(points >= 0xDC80) & (points <= 0xDCFF)] = 1
    return np.concatenate((np.zeros(1, np.int64), np.cumsum(lengths)))

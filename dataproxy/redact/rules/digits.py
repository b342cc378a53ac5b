"""What the rules for numbers share: where digits stand close together, and what surrounds them.

No look-around by letters: Latin letters next to a number are judged here, CJK next to it never counts.
"""

import re
from collections.abc import Iterator

from dataproxy.redact.folding import View

TRIGGER = rb"[0-9](?:[ \-./()_+\t]{0,3}[0-9]){6}"
_ALNUM = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz"
_WORD = re.compile(rb"(?=[A-Za-z]*[G-Zg-z])[A-Za-z]{2,16}")
_RUN = re.compile(rb"[0-9](?:[ \-./()_+\t]{0,3}[0-9])*+")
_NO_DIGITS = bytes(byte for byte in range(256) if not 48 <= byte <= 57)
_UUID = re.compile(rb"(?<![0-9A-Za-z])[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}(?![0-9A-Za-z])")
_REACH = 40
_ID_WORDS = re.compile(
    r"(?:order|invoice|ticket|case|ref(?:erence)?|sku|tracking|serial|version|build|commit|batch|item|article|isbn|uuid|hash|"
    r"timestamp|offset|bestellung|commande|订单|订单号|单号|编号|流水号)"
    r"(?:[ _-]?(?:id|no|nr|number|num|code|nummer))?[\"']?[ .:#=是：\"'-]*\Z"
)


def runs(view: View) -> Iterator[tuple[int, int]]:
    """Stretches [start, end) with at least seven digits, at most three separators between two of them."""
    for match in _RUN.finditer(view.data):
        if match.end() - match.start() >= 7:
            yield match.span()


def plain(digits: bytes) -> bytes:
    """The ASCII digits in ``digits``, nothing else."""
    return digits.translate(None, _NO_DIGITS)


def glued(view: View, start: int, end: int) -> bool:
    """Whether letters or an underscore touch the number, so that it is a piece of an identifier or of a hex digest.

    A word before or after it is no part of an identifier ("card4111…", "…1111exp"), and so is the ``n`` of a half-written escape.
    """
    head = view.data[max(0, start - _REACH) : start]
    before = head[len(head.rstrip(_ALNUM)) :]
    if before and not _WORD.fullmatch(before) and not (len(before) == 1 and head[-2:-1] == b"\\"):
        return True
    tail = view.data[end : end + _REACH]
    after = tail[: len(tail) - len(tail.lstrip(_ALNUM))]
    if after and not _WORD.fullmatch(after):
        return True
    return (head.endswith(b"-") or tail.startswith(b"-")) and _in_uuid(view, start, end)


def _in_uuid(view: View, start: int, end: int) -> bool:
    uuids = _UUID.finditer(view.data, max(0, start - _REACH), end + _REACH)
    return any(match.start() <= start and end <= match.end() for match in uuids)


def named_as_id(view: View, start: int) -> bool:
    """Whether the words right before the number say that it counts orders, tickets, versions and the like."""
    return _ID_WORDS.search(view.before(start, 32)) is not None

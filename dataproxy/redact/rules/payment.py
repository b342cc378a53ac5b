"""Rules for payment cards, IBANs, and identity numbers with a check digit or a fixed form."""

import re
from collections.abc import Iterator

from dataproxy.redact.folding import View
from dataproxy.redact.rules.checks import IBAN_LENGTHS, card_number, cn_resident_id, iban
from dataproxy.redact.rules.digits import glued, plain, runs
from dataproxy.redact.rules.rule import Hit, Rule, by_pattern, hit

_GROUP = re.compile(rb"[0-9]+")
_CARD_SEPARATOR = re.compile(rb"[ \-.+_/\t]{1,3}")
_FRACTION = re.compile(rb"[0-9][.,][0-9]")
_MAX_DIGITS = 19
_FIRST_GROUPS = frozenset((1, 4, 6, 8, *range(13, 20)))
_IBAN_HEAD = re.compile(rb"([A-Za-z]{2})[ \-]?[0-9]{2}(?=[ \-]?[A-Za-z0-9])")
_IBAN_TRIGGER = rb"(?i)(?:" + "|".join(IBAN_LENGTHS).encode() + rb")[ \-]?[0-9]{2}(?:[ \-]{0,2}[A-Za-z0-9]){11}"
_IBAN_TAIL = re.compile(rb"(?:[ \-]{0,2}[A-Za-z0-9]){11,30}+")


def _cards(view: View) -> Iterator[Hit]:
    for start, end in runs(view):
        groups = [match.span() for match in _GROUP.finditer(view.data, start, end)]
        at = 0
        while at < len(groups):
            count, value = _card_at(view, groups, at)
            if count:
                yield Hit(groups[at][0], groups[at + count - 1][1], value)
            at += max(count, 1)


def _card_at(view: View, groups: list[tuple[int, int]], at: int) -> tuple[int, bytes]:
    """How many groups from ``at`` on make a card number, and its digits; longest first."""
    found = (0, b"")
    sizes: list[int] = []
    first, first_end = groups[at]
    if (
        first_end - first not in _FIRST_GROUPS
        or view.data[first] not in b"234568"
        or _FRACTION.match(view.data, max(0, first - 2))
        or (first_end - first == 1 and at > 0 and _is_single(groups, at - 1))
    ):
        return found
    for count, (start, end) in enumerate(groups[at : at + _MAX_DIGITS], 1):
        if count > 1 and not _CARD_SEPARATOR.fullmatch(view.data, groups[at + count - 2][1], start):
            break
        sizes.append(end - start)
        if sum(sizes) > _MAX_DIGITS:
            break
        if sum(sizes) < 13 or not _is_layout(sizes):
            continue
        digits = plain(view.data[first:end])
        if card_number(digits) and not glued(view, first, end):
            found = (count, digits)
    return found


def _is_single(groups: list[tuple[int, int]], at: int) -> bool:
    return groups[at][1] - groups[at][0] == 1


def _is_layout(sizes: list[int]) -> bool:
    """Printed groups are of four and more, but for the last; or every digit stands alone."""
    if len(sizes) == 1 or all(size == 1 for size in sizes):
        return True
    return sizes[0] >= 4 and all(size >= 4 for size in sizes[1:-1])


def _ibans(view: View) -> Iterator[Hit]:
    for head in _IBAN_HEAD.finditer(view.data):
        length = IBAN_LENGTHS.get(head[1].upper().decode())
        before = view.data[max(0, head.start() - 4) : head.start()]
        if length is None or (before[-1:].isalnum() and before.lower() != b"iban"):
            continue
        tail = _IBAN_TAIL.match(view.data, head.end())
        value = head[1].upper() + plain(head[0]) + (tail[0].translate(None, b" -") if tail else b"")
        value = value[:length].upper()
        if iban(value):
            end = _end_of(view, head.end(), length - 4)
            if not view.data[end : end + 1].isalnum():
                yield Hit(head.start(), end, value)


def _end_of(view: View, at: int, count: int) -> int:
    """Where ``count`` letters and digits end that begin at ``at``, separators between them."""
    while count and at < len(view.data):
        count -= view.data[at] not in b" -"
        at += 1
    return at


def _cn_id(view: View, match: re.Match[bytes]) -> Hit | None:
    value = match[0].upper()
    return hit(match, value) if cn_resident_id(value) and not glued(view, match.start(), match.end()) else None


def _ssn(view: View, match: re.Match[bytes]) -> Hit | None:
    return None if glued(view, match.start(), match.end()) else hit(match, plain(match[0]))


RULES = (
    Rule("card", "CARD", 1.0, 60, rb"[0-9](?:[ \-.+_/\t]{0,3}[0-9]){12}", _cards),
    Rule("iban", "IBAN", 1.0, 70, _IBAN_TRIGGER, _ibans),
    Rule("cn_resident_id", "CN_ID", 1.0, 65, rb"[1-8][0-9]{16}[0-9Xx]",
         by_pattern(rb"(?<![0-9])[1-8][0-9]{5}(?:19|20)[0-9]{2}[01][0-9][0-3][0-9]{4}[0-9Xx](?![0-9])", _cn_id)),
    Rule("us_ssn", "SSN", 0.9, 45, rb"[0-9]{3}[\- ][0-9]{2}[\- ][0-9]{4}",
         by_pattern(rb"(?<![0-9\-.])(?!000|666|9)[0-9]{3}-(?!00)[0-9]{2}-(?!0000)[0-9]{4}(?![0-9\-]|\.[0-9])", _ssn)),
)  # fmt: skip

"""Rules for payment cards and bank accounts."""

import re
from collections.abc import Iterator

from dataproxy.redact.folding import View
from dataproxy.redact.rules.checks import ALL_DIGITS, IBAN_LENGTHS, card_number, iban, luhn
from dataproxy.redact.rules.digits import glued, plain
from dataproxy.redact.rules.rule import Hit, Rule, by_pattern, hit

_GROUP = re.compile(rb"[0-9]+")
_CARD_EXTENT = re.compile(rb"[0-9]++(?:[ \-.+_/\t]{1,3}+[0-9]++)*+")
_LEAST_DIGITS = 13
_MAX_DIGITS = 19
_MAX_LENGTH = _MAX_DIGITS + 18 * 3 + 1
_CARD_HEAD = re.compile(
    rb"(?<![0-9])(?<![0-9][.,])(?:[234568]|1(?=800[0-9]{11}(?![0-9])))"
    rb"(?:[0-9]{12,18}(?![0-9])|(?:[0-9]{3}|[0-9]{5}|[0-9]{7})[ \-.+_/\t]{1,3}[0-9]|(?:[ \-.+_/\t]{1,3}[0-9]){12})"
)
_CARD_WORDS = re.compile(r"(?:\bcards?\b|\bcc\b|maestro|credit|debit|carte|karte|tarjeta|卡)[^0-9\n]{0,20}\Z")
_SINGLE_BEFORE = re.compile(rb"(?<![0-9])[0-9][ \-./()_+\t]{1,3}\Z")
_IBAN_HEAD = re.compile(rb"([A-Za-z]{2})[ \-]?[0-9]{2}(?=[ \-]?[A-Za-z0-9])")
_IBAN_TRIGGER = rb"(?i)(?:" + "|".join(IBAN_LENGTHS).encode() + rb")[ \-]?[0-9]{2}(?:[ \-]{0,2}[A-Za-z0-9]){11}"
_IBAN_TAIL = re.compile(rb"(?:[ \-]{0,2}[A-Za-z0-9]){11,30}+")


def _cards(view: View) -> Iterator[Hit]:
    data, after = view.data, 0
    for candidate in _CARD_HEAD.finditer(data):
        start = candidate.start()
        if start < after:
            continue
        extent = _CARD_EXTENT.match(data, start, start + _MAX_LENGTH)
        groups = [match.span() for match in _GROUP.finditer(data, start, extent.end() if extent else start)]
        if groups[0][1] - start == 1 and _SINGLE_BEFORE.search(data[max(0, start - 5) : start]):
            continue
        if found := _card_at(view, groups):
            after = found.end
            yield found


def _card_at(view: View, groups: list[tuple[int, int]]) -> Hit | None:
    """The longest card number made of the first of ``groups``."""
    found, total, first = None, 0, groups[0][0]
    singles, wide, size = True, True, 0
    for n, (start, end) in enumerate(groups):
        # Printed groups are of four and more, but for the last; or every digit stands alone.
        wide = wide and (n == 0 or size >= 4)
        size = end - start
        singles = singles and size == 1
        total += size
        if total > _MAX_DIGITS or not (n == 0 or singles or wide):
            break
        if total >= _LEAST_DIGITS:
            digits = plain(view.data[first:end])
            if card_number(digits) and not glued(view, first, end):
                found = Hit(first, end, digits)
    return found


def _ibans(view: View) -> Iterator[Hit]:
    for head in _IBAN_HEAD.finditer(view.data):
        length = IBAN_LENGTHS.get(head[1].upper().decode())
        before = view.data[max(0, head.start() - 4) : head.start()]
        if length is None or (before[-1:].isalnum() and before.lower() != b"iban"):
            continue
        if head[1].upper() in ALL_DIGITS and not view.data[head.end() : head.end() + 2].strip(b" -")[:1].isdigit():
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


def _short_card(view: View, match: re.Match[bytes]) -> Hit | None:
    """A number of twelve digits, as some debit cards have: too short to count without a word for it."""
    if not luhn(match[0]) or not _CARD_WORDS.search(view.before(match.start(), 32)) or glued(view, *match.span()):
        return None
    return hit(match)


RULES = (
    Rule("short_card", "CARD", 0.8, 59, rb"[56][0-9]{11}", by_pattern(rb"(?<![0-9])[56][0-9]{11}(?![0-9])", _short_card)),
    Rule("card", "CARD", 1.0, 60, rb"[0-9](?:[ \-.+_/\t]{0,3}[0-9]){12}", _cards),
    Rule("iban", "IBAN", 1.0, 70, _IBAN_TRIGGER, _ibans),
)

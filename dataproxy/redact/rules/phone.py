"""Rules for telephone numbers: E.164, North America, Europe with a trunk 0, mainland China.

A form that other numbers share as well (ten bare digits) counts only when a word for telephone stands before it.
"""

import re
from bisect import bisect_left
from collections.abc import Iterator
from itertools import islice

from dataproxy.redact.folding import View
from dataproxy.redact.rules.digits import TRIGGER, glued, named_as_id, plain, runs
from dataproxy.redact.rules.rule import Hit, Rule

_COUNTRIES = {
    "1": (10, 10), "7": (10, 10), "20": (8, 10), "27": (9, 9), "30": (10, 10), "31": (9, 9), "32": (8, 9), "33": (9, 9),
    "34": (9, 9), "36": (8, 9), "39": (8, 11), "40": (9, 9), "41": (9, 9), "43": (7, 13), "44": (9, 10), "45": (8, 8),
    "46": (7, 10), "47": (8, 8), "48": (9, 9), "49": (7, 11), "51": (8, 9), "52": (10, 11), "54": (10, 11), "55": (10, 11),
    "56": (9, 9), "57": (8, 10), "60": (8, 10), "61": (9, 9), "62": (8, 12), "63": (8, 10), "64": (8, 10), "65": (8, 8),
    "66": (8, 9), "81": (9, 10), "82": (8, 10), "84": (8, 10), "86": (10, 11), "90": (10, 10), "91": (10, 10),
    "92": (9, 10), "351": (9, 9), "352": (6, 11), "353": (7, 9), "354": (7, 7), "358": (6, 11), "359": (8, 9), "370": (8, 8),
    "371": (8, 8), "372": (7, 8), "380": (9, 9), "385": (8, 9), "386": (8, 8), "420": (9, 9), "421": (9, 9), "852": (8, 8),
    "853": (8, 8), "886": (8, 9), "966": (8, 9), "971": (8, 9), "972": (8, 9),
}  # fmt: skip
"""Digits of a national number without its trunk prefix, by calling code (ITU-T E.164 and national plans)."""

_NAMED_DIGITS = (7, 13)
_MOST = 2000
"""Numbers taken from one stretch of digits: above half of that the text goes as a whole."""
_REACH = 36
_NANP = re.compile(rb"[2-9][0-9]{2}[2-9][0-9]{6}")
_GROUP = re.compile(rb"[0-9]+")
_ALONE = rb"(?<![0-9])(?<![0-9][\-.])"
_ENDS = rb"(?![0-9]|[.\-][0-9])"
_SEP = rb"[ \-./()]{0,3}"
_CN_MOBILE = rb"1(?:3[0-9]|4[014-9]|5[0-35-9]|6[2567]|7[0-8]|8[0-9]|9[0-35-9])"
_INTERNATIONAL = re.compile(rb"(?<![0-9+])(\+ ?|(?<![0-9][\-. ])00[ \-]?)(\(?[1-9](?:" + _SEP + rb"[0-9]){6,17}+)")
_NORTH_AMERICAN = re.compile(
    _ALONE + rb"(?:\+?1[ \-.])?(?:\([2-9][0-9]{2}\)[ \-.]{0,2}|[2-9][0-9]{2}[ \-.])[2-9][0-9]{2}[ \-.]?[0-9]{4}" + _ENDS
)
_CHINESE = re.compile(_ALONE + rb"(?:86[ \-]?)?" + _CN_MOBILE + rb"[ \-]?[0-9]{4}[ \-]?[0-9]{4}" + _ENDS)
_TRUNK = re.compile(
    rb"(?<![0-9])(?<![0-9][\-. ])"
    rb"(?:\(?0[1-9][0-9]{0,4}\)?(?:[ \-./]{1,3}[0-9]{2,8}){1,5}+|\(0[1-9][0-9]{0,4}\)[0-9]{5,8})(?!-?[0-9])"
)
_SPANISH = re.compile(rb"(?<![0-9])(?<![0-9][\-. ])[679][0-9]{2} [0-9]{2} [0-9]{2} [0-9]{2}(?![ \-.]?[0-9])")
_MOBILE_BARE = re.compile(_ALONE + rb"0(?:[67][0-9]{8}|7[4-9][0-9]{8}|1[567][0-9]{8,9})" + _ENDS)
_ANY = re.compile(rb"(?<![0-9])\(?[0-9]{1,5}\)?(?:[ \-./()]{0,3}[0-9]{2,10}){0,5}+(?!-?[0-9])")
_DATE = re.compile(
    rb"\(?(?:[0-3]?[0-9][./\-][0-3]?[0-9][./\-](?:19|20)[0-9]{2}|(?:19|20)[0-9]{2}[./\-][01]?[0-9][./\-])(?![0-9]{3})"
)
_QUAD = re.compile(rb"[0-9]{1,3}(?:\.[0-9]{1,3}){3}(?![0-9])")
_EXTENSION = re.compile(rb"[ ,]{0,2}(?:x|ext\.?|extension|#)[ .:]{0,2}[0-9]{1,6}(?![0-9A-Za-z])", re.IGNORECASE)
_NOUNS = (
    r"tele?(?:phone|fon|phon)?|telefon(?:nummer|o)?|tél(?:éphone)?|(?:cell|mobile)?[ _-]?phone(?:[ _]?(?:number|no|nr))?|"
    r"mobile?|mob|handy|cell|whatsapp|wechat|fax|sms|numéro"
)
_CHINESE_NOUNS = "电话|手机|号码|號碼|電話|手機|传真|致电|拨打|微信|联系"
_VERBS = r"(?:call|reach|text|dial|ring|contact)(?: (?:me|us|him|her|them|back))?(?: (?:at|on|under|via))?[ :]{1,2}"
_PHONE_WORDS = re.compile(rf"(?:(?:(?<![a-z])(?:{_NOUNS})(?![a-z])|{_CHINESE_NOUNS})[^0-9\n]{{0,20}}|(?<![a-z]){_VERBS})\Z")


def _phones(view: View) -> Iterator[Hit]:
    for start, end in runs(view):
        found: list[Hit] = []
        for form in (_international, _north_american, _chinese, _trunk, _spanish):
            _extend(found, form(view, max(0, start - 4), end))
        if not found and _NAMED_DIGITS[0] <= len(plain(view.data[start:end])) and _PHONE_WORDS.search(view.before(start, _REACH)):
            _extend(found, _named(view, max(0, start - 1), end))
        yield from (_with_extension(view, hit) for hit in found)


def _extend(found: list[Hit], more: Iterator[Hit]) -> None:
    """Add those of ``more`` that overlap none found by a surer form; ``found`` stays in order."""
    starts = [hit.start for hit in found]
    for hit in islice(more, _MOST):
        after = bisect_left(starts, hit.end)  # the last that begins before this one ends is the only one that can overlap it
        if after == 0 or found[after - 1].end <= hit.start:
            found.append(hit)
    found.sort()


def _with_extension(view: View, hit: Hit) -> Hit:
    return hit._replace(end=_extended(view, hit.end))


def _extended(view: View, end: int) -> int:
    """Where a number that ends at ``end`` ends with its extension."""
    extension = _EXTENSION.match(view.data, end)
    return end if extension is None else extension.end()


def _international(view: View, start: int, end: int) -> Iterator[Hit]:
    for match in _INTERNATIONAL.finditer(view.data, start, end):
        lead = match[1]
        cut = _national_end(match[2].replace(b"(0)", b"\0\0\0"))
        if cut is None:
            continue
        length, digits = cut
        bare = match[2][:length].isdigit()
        zeros = lead.startswith(b"00")
        if zeros and bare and not _PHONE_WORDS.search(view.before(match.start(), _REACH)):
            continue
        if zeros and glued(view, match.start(), _extended(view, match.start(2) + length)):
            continue
        yield Hit(match.start(), match.start(2) + length, b"+" + digits)


def _national_end(number: bytes) -> tuple[int, bytes] | None:
    """The longest beginning of ``number`` (calling code first) that is complete by its country's plan: its length, its digits."""
    ends = [match.end() for match in _GROUP.finditer(number)]
    for end in reversed(ends):
        digits = plain(number[:end])
        code = next((digits[:size] for size in (3, 2, 1) if digits[:size].decode() in _COUNTRIES), b"")
        least, most = _COUNTRIES.get(code.decode(), (7, 12))
        fits = least <= len(digits) - len(code) <= most
        if fits and (code != b"1" or _NANP.fullmatch(digits[1:])):
            return end, digits
    return None


def _north_american(view: View, start: int, end: int) -> Iterator[Hit]:
    for match in _NORTH_AMERICAN.finditer(view.data, start, end):
        if glued(view, match.start(), _extended(view, match.end())):
            continue
        if match[0][:1] == b"(" or not named_as_id(view, match.start()):
            yield Hit(match.start(), match.end(), b"+1" + plain(match[0])[-10:])


def _chinese(view: View, start: int, end: int) -> Iterator[Hit]:
    for match in _CHINESE.finditer(view.data, start, end):
        if not glued(view, *match.span()) and not named_as_id(view, match.start()):
            yield Hit(match.start(), match.end(), b"+86" + plain(match[0])[-11:])


def _trunk(view: View, start: int, end: int) -> Iterator[Hit]:
    for form in (_TRUNK, _MOBILE_BARE):
        for match in form.finditer(view.data, start, end):
            digits = plain(match[0])
            if not 9 <= len(digits) <= 12 or _DATE.match(match[0]):
                continue
            if not glued(view, *match.span()) and not named_as_id(view, match.start()):
                yield Hit(match.start(), match.end(), digits)


def _spanish(view: View, start: int, end: int) -> Iterator[Hit]:
    for match in _SPANISH.finditer(view.data, start, end):
        if not named_as_id(view, match.start()):
            yield Hit(match.start(), match.end(), plain(match[0]))


def _named(view: View, start: int, end: int) -> Iterator[Hit]:
    """The first number of the stretch, whatever its form: a word for telephone stands before it."""
    match = _ANY.search(view.data, start, end)
    if match and not _DATE.match(match[0]) and not _QUAD.match(view.data, match.start()) and not glued(view, *match.span()):
        digits = plain(match[0])
        if _NAMED_DIGITS[0] <= len(digits) <= _NAMED_DIGITS[1]:
            yield Hit(match.start(), match.end(), digits)


RULES = (Rule("phone", "PHONE", 0.9, 40, TRIGGER, _phones),)

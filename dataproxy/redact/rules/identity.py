"""Rules for numbers that states give to people: US social security and tax numbers, passports, Chinese resident ids."""

import re
from collections.abc import Iterator

from dataproxy.redact.folding import View
from dataproxy.redact.rules.checks import cn_resident_id
from dataproxy.redact.rules.digits import glued, plain
from dataproxy.redact.rules.rule import Hit, Rule, by_pattern, hit

_CN_ID = rb"(?<![0-9])[1-8][0-9]{5}(?:19|20)[0-9]{2}[01][0-9][0-3][0-9]{4}[0-9Xx](?![0-9])"
_SSN = rb"(?!000|666|9)[0-9]{3}-(?!00)[0-9]{2}-(?!0000)[0-9]{4}"
_ITIN = rb"9[0-9]{2}-(?:5[0-9]|6[0-5]|7[0-9]|8[0-8]|9[0-24-9])-[0-9]{4}"
_US = rb"(?<![0-9\-.])(?:" + _SSN + rb"|" + _ITIN + rb")(?![0-9\-]|\.[0-9])"
_US_NAMED = rb"(?<![0-9\-.])[0-9]{3}[ .]?[0-9]{2}[ .]?[0-9]{4}(?![0-9\-]|\.[0-9])"
_US_WORDS = re.compile(r"(?<![a-z])(?:ssn|itin|tin|social[ _-]?security|tax(?:payer)?[ _-]?id)(?![a-z])[^0-9\n]{0,24}\Z")
_REACH = 48

_PASSPORT = (
    rb"(?<![A-Za-z0-9])(?:[A-Za-z]{1,2}[0-9]{6,8}|[0-9]{8,9}|[A-Za-z][0-9]{2}[A-Za-z]{2}[0-9]{5}|[CFGHJKLMNPRTVWXYZ0-9]{9})"
    rb"(?![A-Za-z0-9])"
)
_PASSPORT_WORDS = re.compile(
    r"(?:passports?|passeports?|reisep(?:ass|ässe)|pasaportes?|passaport[eio]|paspoort|护照|護照|パスポート|旅券|여권)"
    r"[^\n]{0,32}\Z"
)
# The machine-readable zone of a passport (ICAO 9303): a name line, then number, country, birthday, sex, expiry.
_MRZ_NAME = rb"(?<![A-Z0-9<])P[A-Z<][A-Z]{3}[A-Z<]{39}(?![A-Z0-9<])"
_MRZ_NUMBER = rb"(?<![A-Z0-9<])[A-Z0-9<]{9}[0-9][A-Z]{3}[0-9]{7}[MFX<][0-9]{7}[A-Z0-9<]{14}[0-9<][0-9](?![A-Z0-9<])"


def _cn_id(view: View, match: re.Match[bytes]) -> Hit | None:
    value = match[0].upper()
    return hit(match, value) if cn_resident_id(value) and not glued(view, match.start(), match.end()) else None


def _us(view: View, match: re.Match[bytes]) -> Hit | None:
    return None if glued(view, match.start(), match.end()) else hit(match, plain(match[0]))


def _us_named(view: View, match: re.Match[bytes]) -> Hit | None:
    named = _US_WORDS.search(view.before(match.start(), _REACH))
    return hit(match, plain(match[0])) if named and not glued(view, match.start(), match.end()) else None


def _passport(view: View, match: re.Match[bytes]) -> Hit | None:
    digits = plain(match[0])
    if len(digits) < 5 or not _PASSPORT_WORDS.search(view.before(match.start(), _REACH)):
        return None
    return hit(match, match[0].upper())


def _mrz(view: View) -> Iterator[Hit]:
    for pattern in _MRZ:
        for match in pattern.finditer(view.data):
            yield hit(match)


_MRZ = (re.compile(_MRZ_NAME), re.compile(_MRZ_NUMBER))

RULES = (
    Rule("cn_resident_id", "CN_ID", 1.0, 65, rb"[1-8][0-9]{16}[0-9Xx]", by_pattern(_CN_ID, _cn_id)),
    Rule("us_ssn", "SSN", 0.9, 45, rb"[0-9]{3}-[0-9]{2}-[0-9]{4}", by_pattern(_US, _us)),
    Rule("us_ssn_named", "SSN", 0.8, 44, rb"[0-9]{3}[ .]?[0-9]{2}[ .]?[0-9]{4}", by_pattern(_US_NAMED, _us_named)),
    Rule("passport", "PASSPORT", 0.8, 43, rb"[A-Za-z0-9]{2}[0-9]{2}[A-Za-z0-9]{2}[0-9]{2}", by_pattern(_PASSPORT, _passport)),
    Rule("passport_mrz", "PASSPORT", 1.0, 66, rb"P[A-Z<][A-Z]{3}[A-Z<]{39}|[0-9][A-Z]{3}[0-9]{7}[MFX<][0-9]{7}[A-Z0-9<]{14}", _mrz),
)

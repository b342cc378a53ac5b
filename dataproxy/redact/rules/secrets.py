"""Rules for secrets without a provider's form: bearer tokens, cookies, JWTs, private keys, connection strings, assignments."""

import base64
import binascii
import re
from collections.abc import Iterator

from dataproxy.redact.folding import View
from dataproxy.redact.rules.rule import Hit, Rule, accept, by_pattern, hit

_SCHEME = rb"(?i:(?<![A-Za-z])(?:bearer|basic)[ :\t]{1,3}([A-Za-z0-9._~+/=\-]{12,}+))"
_JWT = rb"(?<![A-Za-z0-9_\-])(eyJ[A-Za-z0-9_\-]{6,}+)(?:\.[A-Za-z0-9_\-]++){1,4}(?:\.(?![A-Za-z0-9_\-]))?"
_PRIVATE_KEY = (
    rb"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----"
    rb"((?:[A-Za-z0-9+/=\s\\:,]|-(?!-))*+)(?:-----END [A-Z0-9 ]{0,40}-----)?"
)
_CONNECTION = (
    rb"(?<![A-Za-z0-9+.\-])[A-Za-z][A-Za-z0-9+.\-]{1,30}+://[^\s/@:\"'<>]{0,128}+:[^\s/@\"'<>]{1,256}+@"
    rb"[A-Za-z0-9\xe9._\-\[\]:%@]++(?:/[^\s\"'<>,;&)\]}\x80]*+)?"
)
_NAMES = (
    b"apikey", b"api_key", b"api-key", b"secret", b"accesskey", b"access_key", b"access-key", b"accountkey", b"account_key",
    b"token", b"password", b"passwd", b"pwd",
)  # fmt: skip
_ASSIGNED = re.compile(
    rb"[a-zA-Z]{2,16}(?:[_\-][a-zA-Z]{1,16})?(?i:(?<=key)|(?<=secret)|(?<=token)|(?<=password)|(?<=passwd)|(?<=pwd))"
    rb"[\"']?[ \t]{0,4}(?:[:=]|=>)[ \t]{0,4}[\"']?([A-Za-z0-9+/_.~!@#$%^&*=\-]{8,256}+)(?![(\[])"
)


_SECRET_NAME = (
    rb"(?:pass(?:word|wd|phrase|code)?|pwd|secret|token|api[_\-]?key|access[_\-]?key|private[_\-]?key|credentials?|auth|dsn)"
)
_ENV = (
    rb"(?<![A-Za-z0-9_])(?:[A-Z0-9]{1,32}_){0,8}"
    rb"(?:PASS(?:WORD|WD|PHRASE)?|PWD|SECRET|TOKEN|API_?KEY|ACCESS_KEY|PRIVATE_KEY|CREDENTIALS?|DSN)(?:_[A-Z0-9]{1,32}){0,4}"
    rb"[ ]?=[ ]?[\"']?([^\s\"'`,;)}\]>]{6,512}+)"
)
_QUOTED = rb"(?i:(?<![A-Za-z])(?:[a-z]{2,20}[_\-])?" + _SECRET_NAME + rb"[\"'][ \t]{0,4}:[ \t]{0,4}[\"'])([^\"'\n]{6,512}+)[\"']"
_COOKIE = rb"(?i:(?<![A-Za-z])cookie[\"']?[ \t]{0,4}[:=][ \t]{0,4}[\"']?)([^\s\"'=;,]{1,64}=[^\n\"']{8,4096}+)"
_SIGNED_NAMES = (
    rb"x-(?:amz|goog)-(?:signature|credential|security-token)|sig|signature|access_token|auth|code|sid|session(?:id|_id)?"
)
_SIGNED = rb"(?i:[?&;](?:" + _SIGNED_NAMES + rb")=)([A-Za-z0-9%+/_=.~\-]{12,2048}+)"
_PLACEHOLDER = re.compile(
    rb"(?i)[\"']?(?:\$[{(A-Za-z]|<|\{|%[({]|\*{3}|x{4}|\.{3}|your|my[-_]|change|example|placeholder|string|required|optional|"
    rb"none|null|true|false|"
    rb"os\.|env|process\.|self\.|get|settings|config|input|password|secret|token|redacted|todo|f[\"'])"
)


def _given(_: View, match: re.Match[bytes]) -> Hit | None:
    """What stands after a name for a secret, unless it says where a secret would stand."""
    value = match[1]
    plain_word = value.isalpha() and (value.islower() or value.isupper()) and len(value) < 8
    return None if _PLACEHOLDER.match(value) or plain_word or b"(" in value or len(set(value)) < 4 else hit(match, group=1)


def _bearer(_: View, match: re.Match[bytes]) -> Hit | None:
    return hit(match, group=1) if _looks_random(match[1], 12) else None


def _random_given(_: View, match: re.Match[bytes]) -> Hit | None:
    return hit(match, group=1) if _looks_random(match[1], 12) else None


def _assignments(view: View) -> Iterator[Hit]:
    """Values given to what is named like a secret. The names are sought as literals: an expression for all of them is slow."""
    lower = view.data.lower()
    for name in _NAMES:
        at = lower.find(name)
        while at >= 0:
            match = _ASSIGNED.match(view.data, at)
            if match and _looks_random(match[1], 8):
                yield hit(match, group=1)
            at = lower.find(name, match.end() if match else at + len(name))


def _looks_random(value: bytes, least: int) -> bool:
    """A secret mixes letters and digits; a name, a path or a placeholder in code does not."""
    letters = any(chr(byte).isalpha() for byte in value)
    digits = sum(48 <= byte <= 57 for byte in value)
    return len(value) >= least and letters and digits >= 2 and len(set(value)) >= 6


def _jwt(_: View, match: re.Match[bytes]) -> Hit | None:
    head = match[1] + b"=" * (-len(match[1]) % 4)
    try:
        header = base64.urlsafe_b64decode(head)
    except binascii.Error:
        return None
    return hit(match) if header.startswith(b"{") and b'"alg"' in header else None


def _private_key(_: View, match: re.Match[bytes]) -> Hit | None:
    return hit(match) if len(match[1].strip()) >= 16 else None


RULES = (
    Rule("private_key", "PRIVATE_KEY", 1.0, 100, rb"PRIVATE KEY(?: BLOCK)?-----", by_pattern(_PRIVATE_KEY, _private_key),
         spans_lines=True),
    Rule("connection_string", "CONNECTION_STRING", 1.0, 95, rb"://[^\s/@\"'<>]{0,128}:[^\s/@\"'<>]{1,256}@",
         by_pattern(_CONNECTION, accept)),
    Rule("jwt", "JWT", 1.0, 90, rb"eyJ[A-Za-z0-9_\-]{6,}\.", by_pattern(_JWT, _jwt)),
    Rule("authorization", "SECRET", 0.9, 80, rb"(?i)(?:bearer|basic)[ :\t]", by_pattern(_SCHEME, _bearer)),
    Rule("env_assignment", "SECRET", 0.9, 76, rb"(?:PASS|PWD|SECRET|TOKEN|KEY|CREDENTIAL|DSN)[A-Z0-9_]{0,132}[ ]?=",
         by_pattern(_ENV, _given)),
    Rule("named_secret", "SECRET", 0.9, 76, rb"(?i)" + _SECRET_NAME + rb"[\"'][ \t]{0,4}:[ \t]{0,4}[\"']",
         by_pattern(_QUOTED, _given)),
    Rule("cookie", "SECRET", 0.9, 78, rb"(?i)cookie[\"']?[ \t]{0,4}[:=]", by_pattern(_COOKIE, _given)),
    Rule("signed_url", "SECRET", 0.9, 77, rb"(?i)[?&;](?:x-(?:amz|goog)-|sig|access_token|auth|code|sid|session)",
         by_pattern(_SIGNED, _random_given)),
    Rule("assignment", "SECRET", 0.8, 75, rb"(?i)(?:key|secret|token|passw(?:or)?d|pwd)[\"']?[ \t]{0,4}[:=]",
         _assignments),
)  # fmt: skip

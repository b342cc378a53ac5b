"""Rules for secrets: provider keys, bearer tokens, JWTs, private keys, connection strings, assignments."""

import base64
import binascii
import re
from collections.abc import Iterator

from dataproxy.redact.folding import View
from dataproxy.redact.rules.rule import Hit, Rule, accept, by_pattern, hit

_KEY_FORMS = (
    rb"sk-[A-Za-z0-9_\-]{20,}+",
    rb"(?:sk|rk|pk)_(?:live|test)_[A-Za-z0-9]{16,}+",
    rb"hr_[A-Za-z0-9_\-]{16,}+",
    rb"(?:AKIA|ASIA|ABIA|ACCA)[0-9A-Z]{16}(?![0-9A-Za-z])",
    rb"gh[pousr]_[A-Za-z0-9]{30,}+",
    rb"github_pat_[A-Za-z0-9_]{22,}+",
    rb"glpat-[A-Za-z0-9_\-]{20,}+",
    rb"xox[abeoprs]-[A-Za-z0-9\-]{10,}+",
    rb"AIza[0-9A-Za-z_\-]{35}",
    rb"hf_[A-Za-z0-9]{30,}+",
    rb"npm_[A-Za-z0-9]{36}",
    rb"ya29\.[A-Za-z0-9_\-]{20,}+",
    rb"SG\.[A-Za-z0-9_\-]{16,}\.[A-Za-z0-9_\-]{16,}+",
)
_KEY = rb"(?<![A-Za-z0-9])(?:" + b"|".join(_KEY_FORMS) + rb")"
# What is written without an escape's backslash in front of it must still be found: "\nsk-…" leaves an n before the key.
_KEY_TRIGGER = (
    rb"sk-[A-Za-z0-9_\-]{20}|[srp]k_(?:live|test)_|hr_[A-Za-z0-9_\-]{16}|A[KSBC][ICA]A[0-9A-Z]{16}|gh[pousr]_[A-Za-z0-9]{30}|"
    rb"github_pat_|glpat-|xox[abeoprs]-|AIza[0-9A-Za-z_\-]{35}|hf_[A-Za-z0-9]{30}|npm_[A-Za-z0-9]{36}|ya29\.|SG\.[A-Za-z0-9_\-]{16}"
)
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


def _api_key(_: View, match: re.Match[bytes]) -> Hit | None:
    return hit(match) if any(48 <= byte <= 57 or 65 <= byte <= 90 for byte in match[0][4:]) else None


def _bearer(_: View, match: re.Match[bytes]) -> Hit | None:
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
    Rule("api_key", "API_KEY", 1.0, 85, _KEY_TRIGGER, by_pattern(_KEY, _api_key)),
    Rule("authorization", "SECRET", 0.9, 80, rb"(?i)(?:bearer|basic)[ :\t]", by_pattern(_SCHEME, _bearer)),
    Rule("assignment", "SECRET", 0.8, 75, rb"(?i)(?:key|secret|token|passw(?:or)?d|pwd)[\"']?[ \t]{0,4}[:=]",
         _assignments),
)  # fmt: skip

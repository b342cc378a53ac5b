"""Rules for e-mail addresses and network addresses."""

import ipaddress
import re
from collections.abc import Iterator

from dataproxy.redact.folding import View
from dataproxy.redact.rules.rule import Hit, Rule, by_pattern, hit

_LOCAL = rb"A-Za-z0-9._%+\-\xe9"
_LABEL = rb"[A-Za-z0-9\xe9\-]"
_LOCAL_BYTES = re.sub(rb"[^" + _LOCAL + rb"]", b"", bytes(range(256)), flags=re.DOTALL)
_DOMAIN = re.compile(rb"@" + _LABEL + rb"++(?:\." + _LABEL + rb"++)++")
_TOP = re.compile(rb"\.(?:[A-Za-z\xe9]{2}|[xX][nN]--)")
_NO_BEGIN = b"._%+-"
_HEAD = 64
"""How far before an @ is looked at first; its local part may be longer."""
_TOP_LEVEL = re.compile(rb"[A-Za-z\xe9]{2,24}|[xX][nN]--[A-Za-z0-9\-]+")
_FILE_ENDINGS = frozenset((b"png", b"jpg", b"jpeg", b"gif", b"webp", b"svg", b"css", b"js", b"ts", b"json", b"html", b"tgz"))
_SENTENCE = re.compile(rb"(\.[a-z]{2,6})\.[A-Z][A-Za-z]*$")
_OCTET = rb"(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])"
_QUAD = re.compile(_OCTET + rb"(?:\." + _OCTET + rb"){3}")
_NOBODYS = re.compile(rb"(?:0|127|22[4-9]|23[0-9]|255)\.")
"""This network, loopback, multicast, broadcast and masks."""
_MAC = rb"(?<![0-9A-Za-z])(?<![0-9A-Za-z][:\-])[0-9a-fA-F]{2}([:\-])(?:[0-9a-fA-F]{2}\1){4}[0-9a-fA-F]{2}(?![0-9A-Za-z:\-])"
_VERSION_WORD = re.compile(r"(?:version|release|v|build|rev|版本)[ \t:=\"']*\Z")


def _email_length(address: bytes) -> int | None:
    """How much of a candidate is the address: labels after the top level are given back to the sentence."""
    local, _, domain = _SENTENCE.sub(rb"\1", address).rstrip(b"-").partition(b"@")
    labels = domain.split(b".")
    while len(labels) > 1 and not _TOP_LEVEL.fullmatch(labels[-1]):
        labels.pop()
    if len(labels) < 2 or labels[-1].lower() in _FILE_ENDINGS or all(label.isdigit() for label in labels[:-1]):
        return None
    return len(local) + 1 + len(b".".join(labels))


def _emails(view: View) -> Iterator[Hit]:
    """Addresses around each @: to seek the @ is many times quicker than to try every word for a local part."""
    data, after = view.data, 0
    at = data.find(b"@")
    while at >= 0:
        domain = _DOMAIN.match(data, at)
        if domain and (start := _local_start(data, after, at)) is not None:
            after = domain.end()
            if _TOP.search(data, at, after) and (found := _email(data, start, after)):
                yield found
        at = data.find(b"@", domain.end() if domain else at + 1)


def _local_start(data: bytes, after: int, at: int) -> int | None:
    """Where the local part before ``at`` begins, None where there is none or it is the end of what stands before ``after``."""
    size = _HEAD
    while True:
        low = max(after, at - size)
        head = data[low:at]
        left = len(head.rstrip(_LOCAL_BYTES))
        if left or low == after:
            break
        size *= 4
    run = head[left:]
    if low + left == after and after and data[after - 1] in _LOCAL_BYTES:
        return None
    local = run.lstrip(_NO_BEGIN)
    return at - len(local) if local else None


def _email(data: bytes, start: int, end: int) -> Hit | None:
    address = data[start:end]
    length = _email_length(address)
    if length is None:
        return None
    end = start + length
    if address.startswith(b"git@") and data[end : end + 1] == b":":
        return None
    return Hit(start, end, address[:length].lower())


def _ipv4(view: View, match: re.Match[bytes]) -> Hit | None:
    if not _QUAD.fullmatch(match[0]) or _NOBODYS.match(match[0]) or _VERSION_WORD.search(view.before(match.start(), 14)):
        return None
    return hit(match)


def _ipv6(_: View, match: re.Match[bytes]) -> Hit | None:
    if match[0].count(b":") < 3:
        return None
    try:
        address = ipaddress.IPv6Address(match[0].decode())
    except ValueError:
        return None
    return None if address.is_loopback or address.is_unspecified else hit(match, address.exploded.encode())


def _mac(_: View, match: re.Match[bytes]) -> Hit:
    return hit(match, match[0].lower().replace(b"-", b":"))


RULES = (
    Rule("email", "EMAIL", 1.0, 50, rb"@[a-zA-Z0-9\xe9\-]+\.[a-zA-Z\xe9]", _emails),
    Rule("ipv4", "IP", 0.8, 10, rb"[0-9]\.[0-9]{1,3}\.[0-9]{1,3}\.[0-9]",
         by_pattern(rb"(?<![0-9A-Za-z.])[0-9]{1,3}+(?:\.[0-9]{1,3}+){3}(?![0-9A-Za-z]|[.\-][0-9A-Za-z])", _ipv4)),
    Rule("ipv6", "IP", 0.8, 10, rb"[0-9a-fA-F]:[0-9a-fA-F]{0,4}:[0-9a-fA-F]{0,4}:",
         by_pattern(rb"(?<![0-9A-Za-z.])(?<![0-9A-Za-z:]:)(?=[0-9a-fA-F]|::)[0-9a-fA-F:]{8,39}+(?![0-9A-Za-z:])", _ipv6)),
    Rule("mac", "MAC", 0.9, 47, rb"[0-9a-fA-F]{2}[:\-][0-9a-fA-F]{2}[:\-][0-9a-fA-F]{2}[:\-]",
         by_pattern(_MAC, _mac)),
)  # fmt: skip

"""Data URLs whose payload is text: what base64 hides from the rules."""

import base64
import binascii
import re
from collections.abc import Callable, Iterator, Sequence

from dataproxy.redact.exchange import Detection

DATA_URL_SIGN = ";base64,"
"""What stands in every text that holds a data URL."""

_DATA_URL = re.compile(r"data:[A-Za-z0-9.+/;=_-]{0,100}?;base64,([A-Za-z0-9+/_=-]{8,})")
_DETECTOR = "data_url"
_RANK = 99


def data_urls(text: str, detect: Callable[[str], Sequence[Detection]]) -> Iterator[Detection]:
    """The payload of each data URL in ``text`` that decodes to UTF-8 with a value in it, as one detection of kind DATA.

    Images and other bytes that are not UTF-8 are passed over: the pattern lane cannot read them.
    """
    for match in _DATA_URL.finditer(text):
        found = detect(_decoded(match[1]))
        if found:
            yield Detection("DATA", _DETECTOR, 1.0, match.start(1), match.end(1), found[0].canonical, _RANK)


def _decoded(payload: str) -> str:
    plain = payload.rstrip("=").translate(str.maketrans("-_", "+/"))
    try:
        return base64.b64decode(plain + "=" * (-len(plain) % 4)).decode()
    except (binascii.Error, UnicodeDecodeError):
        return ""

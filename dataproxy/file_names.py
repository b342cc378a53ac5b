"""What a file is called that somebody takes away: what it holds, of whom, and when. Pure."""

import re
from datetime import UTC, datetime

_UNSAFE = re.compile("[^A-Za-z0-9._-]+")


def file_name(*parts: str, ending: str, at_us: int, to_the_second: bool = False) -> str:
    """``headrace-PARTS-DAY.ending``; the day, and the time ``to_the_second``, is UTC's at ``at_us`` (UTC µs).

    Of each part its first 80 characters count; all but ASCII letters, digits, ``.``, ``_`` and ``-`` become ``_``.
    """
    at = datetime.fromtimestamp(at_us / 1e6, UTC).strftime("%Y%m%d-%H%M%S" if to_the_second else "%Y%m%d")
    kept = (_UNSAFE.sub("_", part[:80]).strip("._-") for part in parts)
    return f"{'-'.join(('headrace', *filter(None, kept), at))}.{ending}"


def evidence_parts(tenant: str, named: dict[str, str]) -> list[str]:
    """The parts for evidence of ``tenant``: all of it, or of the subject, session or trajectory ``named``.

    Who a person is stands in no file's name.
    """
    return ["evidence", tenant or "operator", *(kind if kind == "subject" else f"{kind}-{name}" for kind, name in named.items())]

"""Code, prose and logs without anybody's data, from what lies on every machine with Python and Debian's licences.

The authors' addresses that some sources carry count as over-redaction, although it is right to take them out.
"""

import random
import sysconfig
from collections.abc import Iterator
from pathlib import Path
from pydoc_data.topics import topics

from bench.redact_cases import look_alike

_CODE = ("json", "asyncio", "http", "logging", "concurrent", "unittest", "xml", "sqlite3")
_LICENCES = Path("/usr/share/common-licenses")
_PIECE = 20_000


def clean_texts(num_bytes: int) -> Iterator[str]:
    """About a third each of code, prose and logs, in pieces of at most 20 KB, ``num_bytes`` at most in all."""
    root = Path(sysconfig.get_paths()["stdlib"])
    code = "\n".join(path.read_text() for name in _CODE for path in sorted((root / name).glob("*.py")))
    rng = random.Random(20_267)
    logs = "\n".join(look_alike(rng) for _ in range(num_bytes // 180))
    for text in (code, prose(), logs):
        part = text[: num_bytes // 3]
        yield from (part[at : at + _PIECE] for at in range(0, len(part), _PIECE))


def prose() -> str:
    """Python's reference topics and, where they are, the licences."""
    licences = [
        path.read_text(errors="replace") for path in sorted(_LICENCES.glob("*")) if path.is_file() and not path.is_symlink()
    ]
    return "\n".join([*topics.values(), *licences])

"""Files of lines: written beside their name and moved there when they are whole, so that a broken export leaves nothing."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO


@contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """A path to write to; what is there when the block ends becomes ``path``, readable by its owner alone."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.partial")
    os.close(os.open(partial, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600))
    try:
        yield partial
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


@contextmanager
def lines_to(path: Path) -> Iterator[IO[bytes]]:
    """A binary file that becomes ``path`` when it is whole."""
    with whole_file(path) as partial, partial.open("wb") as file:
        yield file

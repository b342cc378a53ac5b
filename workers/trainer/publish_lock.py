"""The one right to publish, or to remove what may be published: a lock on a file of the data directory."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from workers.trainer.errors import PublishLockBusy

LOCK_TIMEOUT_S: Final = 120.0


@contextmanager
def publish_lock(path: Path, timeout_s: float = LOCK_TIMEOUT_S) -> Iterator[None]:
    """Hold the right; it ends with the process at the latest.

    Raises: PublishLockBusy.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        deadline = time.monotonic() + timeout_s
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError as error:
                if time.monotonic() > deadline:
                    raise PublishLockBusy(f"another publisher held {path} for {timeout_s:g} s") from error
            time.sleep(0.05)
        yield
    finally:
        os.close(descriptor)

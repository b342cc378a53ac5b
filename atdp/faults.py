"""Fault points: named places where a test may kill the process, to show that nothing is lost there.

Off unless ``HEADRACE_FAULTS`` names a directory; then every pass of a point is logged to ``<dir>/<name>.log``, and a file
``<dir>/<name>.kill`` is consumed by the first process that passes the point, which then dies by SIGKILL. Not for production.
"""

import os
import signal
import time
from pathlib import Path

_DIRECTORY = os.environ.get("HEADRACE_FAULTS")


def point(name: str) -> None:
    """Log the pass of fault point ``name`` and die there if a test asked for it."""
    if _DIRECTORY is None:
        return
    directory = Path(_DIRECTORY)
    try:
        (directory / f"{name}.kill").unlink()
        killed = True
    except FileNotFoundError:
        killed = False
    with (directory / f"{name}.log").open("a") as log:
        log.write(f"{time.time_ns()} {os.getpid()} {'killed' if killed else 'passed'}\n")
    if killed:
        os.kill(os.getpid(), signal.SIGKILL)

"""What the kernel gives a trainer while engines want the same cores.

Owns the process's niceness, and that of its session. Where Linux schedules by session first (autogroup, as Debian does), niceness
counts only among the processes of one session, and `headrace up` starts each of its programs in a session of its own: a trainer of
any niceness would have as much of the cores as the engine. Not owned: when training waits (`gate`). Source: sched(7), "The
autogroup feature". Place in the path: step 3, at the trainer's start.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import Final

OWN_SESSION: Final = "HEADRACE_OWN_SESSION"
"""Set by whoever gave this process and its children a session that nobody else is in."""
_AUTOGROUP: Final = Path("/proc/self/autogroup")


def be_nice(niceness: int) -> None:
    """Give way to others by so much, from now on. Call it before there are threads, which inherit it."""
    os.nice(niceness)
    if OWN_SESSION in os.environ:
        with contextlib.suppress(OSError):  # a kernel without it, /proc that cannot be written, another rank at the same moment
            _AUTOGROUP.write_text(str(niceness))

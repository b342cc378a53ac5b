"""Waiting for the end of processes that are not children of the test."""

import os
import select

_WAIT_S = 30.0


def wait_gone(pid: int) -> None:
    """Returns once ``pid`` is no process any more; the pidfd makes it a wait, not a poll."""
    try:
        fd = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        assert select.select([fd], [], [], _WAIT_S)[0], f"process {pid} is still there"
    finally:
        os.close(fd)

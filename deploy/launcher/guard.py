"""Runs one program and lets nothing of it outlive its supervisor. Started by path, standard library only, so it starts in 20 ms.

Owns the program's whole process tree: as child subreaper it inherits every orphan, so even processes in sessions of their own end
with it. SIGTERM is passed on, with a limit; when the program ends, what it left is killed; when the supervisor dies, however it
dies, the kernel tells (PR_SET_PDEATHSIG) and all of the tree is killed at once.

Usage: guard.py PID_FILE GRACE_S PARENT_PID PROGRAM [ARGUMENT ...]
"""

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
SUPERVISOR_DIED = signal.SIGUSR1
WATCHED = {signal.SIGTERM, signal.SIGINT, signal.SIGCHLD, SUPERVISOR_DIED}
_prctl = ctypes.CDLL(None, use_errno=True).prctl


def main(pid_file: Path, grace_s: float, parent: int, program: list[str]) -> int:
    """Run ``program`` to its end; its exit status, or 128 + signal."""
    signal.pthread_sigmask(signal.SIG_BLOCK, WATCHED)
    _prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    _prctl(PR_SET_PDEATHSIG, SUPERVISOR_DIED, 0, 0, 0)
    if os.getppid() != parent:  # it died before the kernel was told to tell
        return 1
    main_pid = subprocess.Popen(program, preexec_fn=_in_program).pid  # preexec: this process has one thread
    pid_file.write_text(f"{main_pid}\n")
    status = _watch(main_pid, grace_s)
    _kill_tree()
    pid_file.unlink(missing_ok=True)
    return status


def _in_program() -> None:
    signal.pthread_sigmask(signal.SIG_UNBLOCK, WATCHED)
    _prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def _watch(main_pid: int, grace_s: float) -> int:
    """Wait until the program ended, the grace after SIGTERM is over, or the supervisor died."""
    deadline = float("inf")
    while (left_s := deadline - time.monotonic()) > 0:
        received = signal.sigtimedwait(WATCHED, min(left_s, 3600.0))
        if received is None:
            continue
        if received.si_signo == SUPERVISOR_DIED:
            break
        if received.si_signo == signal.SIGCHLD:
            status = _reap(main_pid)
            if status is not None:
                return status
        else:
            deadline = min(deadline, time.monotonic() + grace_s)
            with contextlib.suppress(ProcessLookupError):
                os.kill(main_pid, signal.SIGTERM)
    return 128 + signal.SIGKILL


def _reap(main_pid: int) -> int | None:
    """Collect every child that ended; the program's status if it is among them."""
    found = None
    with contextlib.suppress(ChildProcessError):
        while (ended := os.waitpid(-1, os.WNOHANG))[0] != 0:
            if ended[0] == main_pid:
                code = os.waitstatus_to_exitcode(ended[1])
                found = code if code >= 0 else 128 - code
    return found


def _kill_tree() -> None:
    """Kill descendants until there are none: killing one may hand its children to us."""
    while tree := _descendants():
        for pid in tree:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        _reap(0)
        signal.sigtimedwait({signal.SIGCHLD}, 0.02)


def _descendants() -> list[int]:
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
                children.setdefault(int(fields[1]), []).append(int(entry.name))
    found: list[int] = []
    waiting = [os.getpid()]
    while waiting:
        below = children.get(waiting.pop(), [])
        found += below
        waiting += below
    return found


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3]), sys.argv[4:]))

"""Several gateway processes behind one port: started by forking, started again when they die, drained together.

Each has a listening socket of its own (SO_REUSEPORT: the kernel spreads new connections evenly). This process holds all of them, so
connections that wait for a process that has died are served by its successor. What the processes count together is on the
admission board, what they know of workers in the register; nothing else is shared. This process does no I/O but waiting.
"""

import ctypes
import logging
import os
import signal
import socket
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import FrameType

log = logging.getLogger("gateway")

FIRST_BACKOFF_S = 0.1
LAST_BACKOFF_S = 4.0
_STEADY_S = 10.0
_WATCHED = {signal.SIGTERM, signal.SIGINT, signal.SIGCHLD}
_PR_SET_PDEATHSIG = 1
_KILLED = 128 + signal.SIGKILL

Serve = Callable[[int, socket.socket], int]


@dataclass(slots=True)
class _Slot:
    """One of the processes: its number, its socket, and its life so far."""

    index: int
    listener: socket.socket
    pid: int = 0
    started: float = 0.0
    backoff_s: float = FIRST_BACKOFF_S
    due: float = 0.0


def listen_shared(host: str, port: int, count: int, backlog: int) -> list[socket.socket]:
    """``count`` listening sockets on one port; port 0 takes a free one.

    Raises:
        OSError: the port is taken (by whoever: another gateway's sockets are not joined), or the address is none of this machine's.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.create_server((host, port), family=family) as probe:
        port = probe.getsockname()[1]
    return [socket.create_server((host, port), family=family, backlog=backlog, reuse_port=True) for _ in range(count)]


def serve_many(listeners: Sequence[socket.socket], serve: Serve, drain_s: float) -> int:
    """Run ``serve(index, listener)`` in a process for each listener until SIGTERM or SIGINT; the exit status.

    ``drain_s``: after it, whoever has not ended is killed. A process that cannot start at first (status 1) ends all of them.
    """
    signal.pthread_sigmask(signal.SIG_BLOCK, _WATCHED)
    slots = [_Slot(index, listener) for index, listener in enumerate(listeners)]
    for slot in slots:
        _start(slot, slots, serve)
    status = _watch(slots, serve)
    for slot in slots:
        slot.listener.close()
    return max(status, _end(slots, drain_s))


def _start(slot: _Slot, slots: Sequence[_Slot], serve: Serve) -> None:
    parent = os.getpid()
    slot.started, slot.due = time.monotonic(), 0.0
    slot.pid = os.fork()
    if slot.pid:
        return
    status = 1
    try:
        for other in slots:
            if other is not slot:
                other.listener.close()
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _WATCHED)
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
        if os.getppid() == parent:
            status = serve(slot.index, slot.listener)
    except SystemExit as left:
        status = left.code if isinstance(left.code, int) else 0
    except BaseException:
        log.exception("process %d failed", slot.index)
    finally:
        os._exit(status)  # nothing of the parent's is to be ended here


def _watch(slots: Sequence[_Slot], serve: Serve) -> int:
    """Start again whoever dies; return when told to end, or when one could not start."""
    while True:
        now = time.monotonic()
        for slot in slots:
            if slot.due and slot.due <= now:
                _start(slot, slots, serve)
        wait_s = min((slot.due - now for slot in slots if slot.due), default=3600.0)
        received = signal.sigtimedwait(_WATCHED, max(wait_s, 0.0))
        if received is None:
            continue
        if received.si_signo != signal.SIGCHLD:
            return 0
        for slot, status in _ended(slots):
            if status == 1 and slot.backoff_s == FIRST_BACKOFF_S and time.monotonic() - slot.started < _STEADY_S:
                return 1  # it has said why
            _plan_restart(slot, status)


def _plan_restart(slot: _Slot, status: int) -> None:
    if time.monotonic() - slot.started > _STEADY_S:
        slot.backoff_s = FIRST_BACKOFF_S
    log.error("process %d ended (status %d); starting it again in %g s", slot.index, status, slot.backoff_s)
    slot.due = time.monotonic() + slot.backoff_s
    slot.backoff_s = min(slot.backoff_s * 2, LAST_BACKOFF_S)


def _ended(slots: Sequence[_Slot]) -> list[tuple[_Slot, int]]:
    """Collect those that have ended, with their status (128 + signal if killed)."""
    found = []
    for slot in slots:
        if slot.pid:
            pid, state = os.waitpid(slot.pid, os.WNOHANG)
            if pid:
                code = os.waitstatus_to_exitcode(state)
                slot.pid = 0
                found.append((slot, code if code >= 0 else 128 - code))
    return found


def _end(slots: Sequence[_Slot], drain_s: float) -> int:
    """Tell all to drain, and wait; the worst of their statuses."""
    for slot in slots:
        if slot.pid:
            os.kill(slot.pid, signal.SIGTERM)
    deadline, worst = time.monotonic() + drain_s, 0
    while any(slot.pid for slot in slots):
        left_s = deadline - time.monotonic()
        if left_s <= 0:
            for slot in slots:
                if slot.pid:
                    os.kill(slot.pid, signal.SIGKILL)
                    os.waitpid(slot.pid, 0)
            return _KILLED
        for _, status in _ended(slots):
            worst = max(worst, status)
        if any(slot.pid for slot in slots):
            signal.sigtimedwait({signal.SIGCHLD}, left_s)
    return worst


def leave(signum: int, frame: FrameType | None) -> None:
    """End without complaint: what had to be finished is."""
    raise SystemExit(0)

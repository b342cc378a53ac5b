"""One Headrace per data directory: a lock in ``run/`` that the kernel lets go when its holder dies, so it is never stale."""

import fcntl
import os
import socket
from pathlib import Path
from types import TracebackType

from deploy.errors import AlreadyRunning


class InstanceLock:
    """Held while the context is open. The file also names the holder's pid, for the message."""

    def __init__(self, run_dir: Path) -> None:
        self._path = run_dir / "headrace.lock"
        self._fd = -1

    def __enter__(self) -> "InstanceLock":
        """Take the lock.

        Raises:
            AlreadyRunning: another process holds it.
        """
        self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        fd = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            holder = os.pread(fd, 32, 0).decode().strip() or "unknown"
            os.close(fd)
            raise AlreadyRunning(
                f"Headrace already runs on {self._path.parent.parent} (process {holder}). "
                "End that one with Ctrl-C, or give this one its own --data-dir and --port."
            ) from error
        os.ftruncate(fd, 0)
        os.pwrite(fd, f"{os.getpid()}\n".encode(), 0)
        self._fd = fd
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        os.close(self._fd)


def is_running(run_dir: Path) -> bool:
    """Whether a Headrace runs there, or at least a data proxy that was started by itself, as for a look into a copy of a store."""
    if is_held(run_dir):
        return True
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as door:
        try:
            door.connect(str(run_dir / "dataproxy.sock"))
        except OSError:
            return False
    return True


def is_held(run_dir: Path) -> bool:
    """Whether a Headrace runs on the data directory of ``run_dir``."""
    try:
        fd = os.open(run_dir / "headrace.lock", os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(fd)
    return False

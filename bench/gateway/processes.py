"""Starts what is measured and what measures, each on its own core, and reads what a process and its children used.

CPU time comes from each task's ``schedstat``, in nanoseconds of the scheduler's clock: ``stat`` counts in ticks of 10 ms.
"""

import os
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

_POLL_S = 0.05


class NeverReadyError(RuntimeError):
    """A process ended or did not answer in time."""


def cores() -> tuple[set[int], set[int]]:
    """(the measured process's core, the others'): the first one apart, where there are two."""
    allowed = sorted(os.sched_getaffinity(0))
    return ({allowed[0]}, set(allowed[1:])) if len(allowed) > 1 else (set(allowed), set(allowed))


@contextmanager
def started(
    command: Sequence[str], cpus: set[int], log: Path, env: Mapping[str, str] | None = None, cwd: Path | None = None
) -> Iterator[subprocess.Popen[bytes]]:
    """``command`` while the context lasts, on ``cpus``; standard output is a pipe, standard error goes to ``log``."""
    with log.open("wb") as errors:
        process = subprocess.Popen(
            ["taskset", "-c", ",".join(map(str, sorted(cpus))), *command],
            env={**os.environ, **(env or {})},
            cwd=cwd,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
        )
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                pipe.close()


def wait_ready(process: subprocess.Popen[bytes], url: str, timeout_s: float) -> None:
    """Return once ``url`` answers anything below 500.

    Raises:
        NeverReadyError: it does not within ``timeout_s``, or the process ended.
    """
    end = time.monotonic() + timeout_s
    while not _answers(url):
        if process.poll() is not None:
            raise NeverReadyError(f"{process.args!r} ended with status {process.returncode}")
        if time.monotonic() > end:
            raise NeverReadyError(f"{url} does not answer after {timeout_s:.0f} s")
        time.sleep(_POLL_S)


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=2) as answer:
            return bool(answer.status < 500)
    except urllib.error.HTTPError as error:
        return error.code < 500
    except (OSError, ValueError):
        return False


def free_port() -> int:
    """A port of 127.0.0.1 that nobody listens on right now."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


def tree(pid: int) -> list[int]:
    """``pid`` and its living descendants."""
    found = [pid]
    for parent in found:
        for children in Path(f"/proc/{parent}/task").glob("*/children"):
            with suppress(OSError):
                found += [int(child) for child in children.read_text().split()]
    return found


def cpu_s(pid: int) -> float:
    """Seconds of CPU that the living tasks of ``pid`` and its descendants have used."""
    total_ns = 0
    for member in tree(pid):
        for task in Path(f"/proc/{member}/task").glob("*/schedstat"):
            with suppress(OSError):
                total_ns += int(task.read_text().split()[0])
    return total_ns / 1e9


def rss_mb(pid: int) -> float:
    """Resident memory of ``pid`` and its descendants in 10^6 bytes; pages that two share count twice."""
    pages = 0
    for member in tree(pid):
        with suppress(OSError):
            pages += int(Path(f"/proc/{member}/statm").read_text().split()[1])
    return round(pages * os.sysconf("SC_PAGE_SIZE") / 1e6, 1)

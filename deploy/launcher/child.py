"""One supervised process: its start under a guard, its readiness, its restarts with back-off, its end."""

import asyncio
import os
import signal
import sys
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path

from deploy.errors import StartFailed
from deploy.launcher import guard
from deploy.launcher.oom import num_oom_kills

FIRST_BACKOFF_S = 0.5
LAST_BACKOFF_S = 4.0
"""Agents wait out a gateway's restart, so even one that keeps dying is not left down for long."""
STEADY_S = 60.0
"""A process that lived this long starts again at once and with the first back-off."""
BAD_SETTINGS = 2
"""Exit status of a process that refuses its settings: starting it again would not help."""
_POLL_S = 0.25
_NUM_TAIL_LINES = 15
_OWN_SESSION = "HEADRACE_OWN_SESSION"  # `workers.trainer.niceness` reads it

Say = Callable[[str], None]


@dataclass(slots=True, frozen=True)
class ChildSpec:
    """What a process is.

    ``command`` is asked at every start, because a restarted engine starts from the version that serves by then. ``ready`` is
    polled; None: ready once started. ``advice`` ends the sentence when it does not start. ``grace_s``: from SIGTERM to SIGKILL.
    ``may_finish``: an end with status 0 is the end of its work, and it is not started again.
    """

    name: str
    command: Callable[[], Awaitable[list[str]]]
    environment: dict[str, str]
    ready: Callable[[], Awaitable[bool]] | None
    ready_timeout_s: float
    grace_s: float
    advice: str = ""
    may_finish: bool = False


@dataclass(slots=True)
class Child:
    """Keeps one process alive from ``start`` until ``stop``. All methods run on the supervisor's loop, in its main thread:
    the kernel's word of a parent's death is about the thread that started the child. ``oom_kills`` counts at each start and end."""

    spec: ChildSpec
    log_path: Path
    pid_path: Path
    say: Say
    oom_kills: Callable[[], int | None] = num_oom_kills
    num_restarts: int = 0
    is_ready: asyncio.Event = field(default_factory=asyncio.Event)
    _process: asyncio.subprocess.Process | None = None
    _stopping: bool = False
    _oom_kills_before: int | None = None

    async def run(self) -> None:
        """Start the process and restart it whenever it ends, until ``stop``.

        Raises:
            StartFailed: it never got ready the first time.
        """
        backoff_s = FIRST_BACKOFF_S
        loop = asyncio.get_running_loop()
        while not self._stopping:
            started = loop.time()
            was_ready, failure = await self._run_once()
            self.is_ready.clear()
            if self._stopping:
                return
            if self.spec.may_finish and self._process is not None and self._process.returncode == 0:
                self.say(f"{self.spec.name} has finished its work")
                return
            lived_s = loop.time() - started
            refused = self._process is not None and self._process.returncode == BAD_SETTINGS
            if self.num_restarts == 0 and (not was_ready or refused):
                raise StartFailed(f"{self.spec.name} {failure}.{self._explain()}")
            if lived_s > STEADY_S:
                backoff_s = FIRST_BACKOFF_S
            self.num_restarts += 1
            self.say(f"{self.spec.name} {failure}; starting it again in {backoff_s:g} s (log: {self.log_path})")
            await asyncio.sleep(backoff_s)
            backoff_s = min(backoff_s * 2, LAST_BACKOFF_S)

    async def stop(self) -> None:
        """End the process: SIGTERM now, SIGKILL after its grace (by the guard)."""
        self._stopping = True
        if self._process is not None and self._process.returncode is None:
            self._process.terminate()
            await self._process.wait()

    def kill(self) -> None:
        """End the process and everything under it at once."""
        self._stopping = True
        if self._process is not None and self._process.returncode is None:
            self._process.send_signal(guard.SUPERVISOR_DIED)

    async def _run_once(self) -> tuple[bool, str]:
        """One life of the process: whether it ever got ready, and what ended it."""
        process = await self._spawn()
        try:
            failure = await self._until_ready(process)
            if failure is not None:
                return False, failure
            self.is_ready.set()
            await process.wait()
            return True, f"ended ({self._how(process)})"
        finally:
            if process.returncode is None:
                process.terminate()
                await process.wait()

    async def _spawn(self) -> asyncio.subprocess.Process:
        command = await self.spec.command()
        prefix = [sys.executable, "-I", "-S", guard.__file__, str(self.pid_path), str(self.spec.grace_s), str(os.getpid())]
        self._oom_kills_before = self.oom_kills()
        self.log_path.parent.mkdir(parents=True, exist_ok=True)
        fd = os.open(self.log_path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        try:
            self._process = await asyncio.create_subprocess_exec(
                *prefix, *command, env={**self.spec.environment, _OWN_SESSION: "1"}, start_new_session=True,
                stdin=asyncio.subprocess.DEVNULL, stdout=fd, stderr=fd,
            )  # fmt: skip
        finally:
            os.close(fd)
        return self._process

    async def _until_ready(self, process: asyncio.subprocess.Process) -> str | None:
        """None once ready; else why not."""
        if self.spec.ready is None:
            return None
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self.spec.ready_timeout_s
        while loop.time() < deadline:
            if process.returncode is not None:
                return f"ended while starting ({self._how(process)})"
            if await self.spec.ready():
                return None
            await asyncio.sleep(_POLL_S)
        return f"was not ready after {self.spec.ready_timeout_s:g} s"

    def _how(self, process: asyncio.subprocess.Process) -> str:
        assert process.returncode is not None
        return describe_status(process.returncode, self._oom_kills_before, self.oom_kills())

    def _explain(self) -> str:
        lines = self.log_path.read_text(errors="replace").splitlines()[-_NUM_TAIL_LINES:]
        tail = "\n".join(f"    {line[:300]}" for line in lines) or "    (the log is empty)"
        advice = f"\n{self.spec.advice}" if self.spec.advice else ""
        return f" The last lines of {self.log_path}:\n{tail}{advice}"


def describe_status(status: int, oom_kills_before: int | None, oom_kills: int | None) -> str:
    """``0`` → ``"exit status 0"``; 139, and -11 of the guard itself → ``"killed by signal 11"``.

    After SIGKILL also what the kernel's counter, read before the start and after the end, says of memory: no more than it shows.
    """
    if 0 <= status <= 128:
        return f"exit status {status}"
    number = -status if status < 0 else status - 128
    memory = f"; {_of_memory(oom_kills_before, oom_kills)}" if number == signal.SIGKILL else ""
    return f"killed by signal {number}{memory}"


def _of_memory(before: int | None, now: int | None) -> str:
    if before is None or now is None:
        return "whether memory ran out cannot be told here"
    if now <= before:
        return "nothing here shows that memory ran out"
    return f"memory ran out: the kernel's count of kills for that rose by {now - before} since its start"

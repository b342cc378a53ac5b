"""A supervisor over small programs, to be run as a process of its own by the launcher's tests.

Usage: fake_stack.py DIRECTORY PROGRAM [PROGRAM ...], each one of PROGRAMS; prints ``all are up`` once all are ready.
"""

import asyncio
import os
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

from rich.console import Console

from deploy.errors import StartFailed
from deploy.launcher.child import Child, ChildSpec
from deploy.launcher.report import Report
from deploy.launcher.supervisor import Supervisor, end_on_signals

_MARK = "import os, signal, subprocess, sys, time, pathlib; here = pathlib.Path(sys.argv[1]); name = sys.argv[2]; "
_GRANDCHILD = "import time; time.sleep(3600)"

PROGRAMS = {
    "steady": "(here / name).write_text(str(os.getpid())); time.sleep(3600)",
    "parent": f"child = subprocess.Popen([sys.executable, '-c', {_GRANDCHILD!r}], start_new_session=True); "
    "(here / (name + '.grandchild')).write_text(str(child.pid)); (here / name).write_text(str(os.getpid())); time.sleep(3600)",
    "stubborn": "signal.signal(signal.SIGTERM, signal.SIG_IGN); (here / name).write_text(str(os.getpid())); time.sleep(3600)",
    "broken": "sys.exit('I cannot start: no such model')",
    "silent": "print('no such setting', file=sys.stderr); sys.exit(2)",
}
"""What each fake does once it is up: it writes its pid into a file of its name, which also is its readiness."""


def _spec(name: str, directory: Path) -> ChildSpec:
    async def command() -> list[str]:
        return [sys.executable, "-c", _MARK + PROGRAMS[name], str(directory), name]

    async def ready() -> bool:
        return (directory / name).exists()

    question: Callable[[], Awaitable[bool]] | None = None if name == "silent" else ready
    return ChildSpec(name, command, dict(os.environ), question, ready_timeout_s=30.0, grace_s=0.5, advice="Try another one.")


async def _main(directory: Path, names: list[str]) -> None:
    report = Report(Console())
    children = {n: Child(_spec(n, directory), directory / f"{n}.log", directory / f"{n}.pid", report.say) for n in names}
    after = {name: tuple(names[:index]) for index, name in enumerate(names)}
    ended = asyncio.Event()
    end_on_signals(ended, lambda: None)

    async def ready() -> None:
        print("all are up", flush=True)

    await Supervisor(children, after, names[::-1]).run(ended, report, ready)


if __name__ == "__main__":
    try:
        asyncio.run(_main(Path(sys.argv[1]), sys.argv[2:]))
    except* StartFailed as group:
        sys.exit(str(group.exceptions[0]))

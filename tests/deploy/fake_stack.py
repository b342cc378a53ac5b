"""A supervisor over small programs, to be run as a process of its own by the launcher's tests.

Usage: fake_stack.py DIRECTORY PROGRAM [PROGRAM ...], each one of PROGRAMS; prints ``all are up`` once all are ready.
``engine`` is the real one in all but its command.
"""

import asyncio
import os
import sys
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path

from rich.console import Console

from deploy.errors import StartFailed
from deploy.launcher.checks import free_port
from deploy.launcher.child import Child, ChildSpec
from deploy.launcher.options import UpOptions
from deploy.launcher.report import Report
from deploy.launcher.stack import ENGINE, Endpoints, Served, child_specs
from deploy.launcher.supervisor import Supervisor, end_on_signals
from deploy.paths import Paths

_MARK = "import os, signal, subprocess, sys, time, pathlib; here = pathlib.Path(sys.argv[1]); name = sys.argv[2]; "
_GRANDCHILD = "import time; time.sleep(3600)"

PROGRAMS = {
    "steady": "(here / name).write_text(str(os.getpid())); time.sleep(3600)",
    "parent": f"child = subprocess.Popen([sys.executable, '-c', {_GRANDCHILD!r}], start_new_session=True); "
    "(here / (name + '.grandchild')).write_text(str(child.pid)); (here / name).write_text(str(os.getpid())); time.sleep(3600)",
    "stubborn": "signal.signal(signal.SIGTERM, signal.SIG_IGN); (here / name).write_text(str(os.getpid())); time.sleep(3600)",
    "deaf": "signal.signal(signal.SIGTERM, signal.SIG_IGN); (here / name).write_text(str(os.getpid())); time.sleep(3600)",
    "starting": "(here / (name + '.begun')).write_text(str(os.getpid())); time.sleep(3600)",
    "engine": "print('Load weight begin.', flush=True); os.kill(os.getpid(), signal.SIGKILL)",
    "broken": "sys.exit('I cannot start: no such model')",
    "silent": "print('no such setting', file=sys.stderr); sys.exit(2)",
}
"""What each fake does once it is up: it writes its pid into a file of its name, which also is its readiness.

``stubborn`` is killed soon after SIGTERM, ``deaf`` within an hour; ``starting`` is never ready.
"""


def _spec(name: str, directory: Path) -> ChildSpec:
    async def command() -> list[str]:
        return [sys.executable, "-c", _MARK + PROGRAMS[name], str(directory), name]

    async def ready() -> bool:
        return (directory / name).exists()

    if name == ENGINE:
        return replace(_real_engine(directory), command=command)
    question: Callable[[], Awaitable[bool]] | None = None if name == "silent" else ready
    timeout_s, grace_s = 3600.0 if name == "starting" else 30.0, 3600.0 if name == "deaf" else 0.5
    return ChildSpec(name, command, dict(os.environ), question, timeout_s, grace_s, advice="Try another one.")


def _real_engine(directory: Path) -> ChildSpec:
    """As ``headrace up`` has it, on a port where nobody answers."""

    async def serving() -> Served:
        return Served(directory, "v000000")

    endpoints = Endpoints("http://127.0.0.1:1", f"http://127.0.0.1:{free_port()}")
    specs = child_specs(UpOptions(Paths(directory, directory)), endpoints, serving, directory)
    (found,) = (spec for spec in specs if spec.name == ENGINE)
    return found


async def _main(directory: Path, names: list[str]) -> None:
    report = Report(Console())
    children = {n: Child(_spec(n, directory), directory / f"{n}.log", directory / f"{n}.pid", report.say) for n in names}
    after = {name: tuple(names[:index]) for index, name in enumerate(names)}
    ended = asyncio.Event()
    end_on_signals(ended, children)

    async def ready() -> None:
        print("all are up", flush=True)

    await Supervisor(children, after, names[::-1]).run(ended, report, ready)


if __name__ == "__main__":
    try:
        asyncio.run(_main(Path(sys.argv[1]), sys.argv[2:]))
    except* StartFailed as group:
        sys.exit(str(group.exceptions[0]))

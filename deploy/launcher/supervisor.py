"""Keeps a set of processes: starts each after those it needs, tells when all are ready, ends them in order.

Knows nothing of what they are (``stack``) nor of what surrounds a start (``up``).
"""

import asyncio
import signal
from collections.abc import Awaitable, Callable, Mapping, Sequence

from deploy.launcher.child import Child
from deploy.launcher.report import Report

OnReady = Callable[[], Awaitable[None]]


class Supervisor:
    """``children`` by name; ``starts_after`` names what each waits for; ``stop_order`` names all of them."""

    def __init__(self, children: Mapping[str, Child], starts_after: Mapping[str, Sequence[str]], stop_order: Sequence[str]) -> None:
        self._children = children
        self._starts_after = starts_after
        self._stop_order = [name for name in stop_order if name in children]

    async def run(self, ended: asyncio.Event, report: Report, on_ready: OnReady) -> None:
        """Run everything until ``ended``; ``on_ready`` is awaited once all are ready.

        Raises:
            ExceptionGroup: of StartFailed, or of what ``on_ready`` raised. Nothing is left running.
        """
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(self._run_child(child)) for child in self._children.values()]
            tasks.append(group.create_task(self._announce(report, on_ready)))
            await ended.wait()
            report.say("ending (Ctrl-C again: at once)")
            with report.waiting("ending"):
                for name in self._stop_order:
                    await self._children[name].stop()
                    report.say(f"{name} has ended")
            for task in tasks:
                task.cancel()
        report.say("ended; nothing is left running")

    async def _run_child(self, child: Child) -> None:
        for name in self._starts_after[child.spec.name]:
            await self._children[name].is_ready.wait()
        await child.run()

    async def _announce(self, report: Report, on_ready: OnReady) -> None:
        with report.waiting(f"starting {', '.join(self._children)}"):
            for done in asyncio.as_completed([self._named(name) for name in self._children]):
                report.say(f"{await done} is ready")
            await on_ready()

    async def _named(self, name: str) -> str:
        await self._children[name].is_ready.wait()
        return name


def end_on_signals(ended: asyncio.Event, children: Mapping[str, Child]) -> None:
    """The first Ctrl-C or SIGTERM sets ``ended``; another one kills those that ``children`` holds by then at once."""

    def received() -> None:
        if ended.is_set():
            for child in children.values():
                child.kill()
        ended.set()

    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, received)

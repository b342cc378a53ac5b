"""What the person in front of the demo sees while it runs: one bar a phase, with what it has found so far."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn


@dataclass(slots=True)
class Phase:
    """One bar. On no terminal the bars are silent and each phase prints one line when it ends."""

    _progress: Progress
    _task: TaskID
    found: str = ""

    def at(self, done: float, found: str = "") -> None:
        """``done`` of the phase's total, and what was found so far."""
        self.found = found
        self._progress.update(self._task, completed=done, found=found)


class Show:
    """The bars of a whole demo; use as a context manager through ``showing``."""

    def __init__(self, console: Console, progress: Progress) -> None:
        self.console = console
        self._progress = progress

    @contextmanager
    def phase(self, title: str, total: float) -> Iterator[Phase]:
        """A bar of ``total`` steps; it stays on the screen."""
        task = self._progress.add_task(title, total=total, found="")
        phase = Phase(self._progress, task)
        yield phase
        self._progress.update(task, completed=total)
        self._progress.stop_task(task)
        if not self.console.is_terminal:
            elapsed = self._progress.tasks[task].finished_time or self._progress.tasks[task].elapsed or 0.0
            self.console.print(f"{title}: {elapsed:.0f} s  {phase.found}", highlight=False, soft_wrap=True)


@contextmanager
def showing(console: Console) -> Iterator[Show]:
    """The bars, live on a terminal."""
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(bar_width=24),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("[dim]{task.fields[found]}"),
    )
    with Progress(*columns, console=console, disable=not console.is_terminal) as progress:
        yield Show(console, progress)

"""What the person in front of ``headrace up`` sees: a line per thing that happened, and what is waited for."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console


class Report:
    """Lines on ``console``, each with the seconds since the start; on a terminal also a spinner while something is waited for."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self._started = time.monotonic()

    def say(self, line: str) -> None:
        """Print one line."""
        seconds = time.monotonic() - self._started
        self.console.print(f"[dim]{seconds:6.1f} s[/dim]  {line}", highlight=False, soft_wrap=True)

    @contextmanager
    def waiting(self, what: str) -> Iterator[None]:
        """A spinner that says ``what`` while the block runs."""
        if not self.console.is_terminal:
            yield
            return
        with self.console.status(what):
            yield

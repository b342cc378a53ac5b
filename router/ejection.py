"""Outlier ejection: a worker that fails several times in a row is left out for a while, each time for twice as long."""

from dataclasses import dataclass

FAILURES = 3
FIRST_S = 1.0
LONGEST_S = 60.0


@dataclass(slots=True)
class Ejection:
    """One worker's record. After its time is over it is tried again; until it succeeds, one more failure ejects it at once.

    ``num_times`` is forgotten when it has behaved for ``LONGEST_S``.
    """

    num_failures: int = 0
    num_times: int = 0
    until: float = 0.0

    def failed(self, now: float) -> None:
        """A call failed by the worker's fault ``now``."""
        self.num_failures += 1
        if self.num_failures < FAILURES or now < self.until:
            return
        if now > self.until + LONGEST_S:
            self.num_times = 0
        self.until = now + min(FIRST_S * 2**self.num_times, LONGEST_S)
        self.num_times += 1

    def succeeded(self) -> None:
        """A call went well."""
        self.num_failures = 0

    def holds(self, now: float) -> bool:
        """Whether the worker is to be left out ``now``."""
        return now < self.until

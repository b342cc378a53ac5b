"""Time limits of one exchange, checked by the pool's sweeper: no timer per request."""

import math
from dataclasses import dataclass


@dataclass(slots=True)
class Limits:
    """When an exchange is too late, in seconds of the loop's clock. ``first_byte_at`` and ``total_at`` are points in time.

    ``idle_s`` counts from the last byte, and not at all while the agent is the slow one.
    """

    first_byte_at: float = math.inf
    idle_s: float = math.inf
    total_at: float = math.inf
    _idle_at: float = math.inf

    @classmethod
    def starting(cls, now: float, first_byte_s: float, idle_s: float, total_s: float) -> "Limits":
        """The limits of an exchange that starts ``now``."""
        return cls(now + first_byte_s, idle_s, now + total_s)

    def touch(self, now: float) -> None:
        """A byte came ``now``."""
        self.first_byte_at = math.inf
        self._idle_at = now + self.idle_s

    def suspend(self) -> None:
        """The agent does not read: only the total counts."""
        self._idle_at = math.inf

    def exceeded(self, now: float) -> str | None:
        """The setting that ``now`` is past, or None."""
        if now > self.first_byte_at:
            return "first_byte_timeout_s"
        if now > self._idle_at:
            return "idle_timeout_s"
        return "total_timeout_s" if now > self.total_at else None

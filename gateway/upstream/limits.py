"""Time limits of one exchange, checked by the pool's sweeper: no timer per request."""

import math
from dataclasses import dataclass


@dataclass(slots=True, frozen=True)
class Limits:
    """Seconds that an exchange may take: until the first byte, between two reads, and in all."""

    first_byte_s: float = math.inf
    idle_s: float = math.inf
    total_s: float = math.inf

    def exceeded(self, now: float, started: float, heard: float, paused: bool) -> str | None:
        """The setting that an exchange is past, or None.

        It began at ``started``, and bytes came last at ``heard``, infinite where none has come. Where reading is ``paused``, the
        agent is the slow one, and only the total counts.
        """
        if now - started > self.total_s:
            return "total_timeout_s"
        if paused:
            return None
        if heard == math.inf:
            return "first_byte_timeout_s" if now - started > self.first_byte_s else None
        return "idle_timeout_s" if now - heard > self.idle_s else None


NO_LIMITS = Limits()

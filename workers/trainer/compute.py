"""Compute that follows load: who has the shared cores now, serving or training, and why.

Owns the decision; pure, time is an argument. Serving has priority: while requests are in flight, or so many arrive that one would
come before training could stop again, training waits. Once it has been quiet for a moment, training goes on. A floor keeps training
alive under load without end: after a grace it gets a microbatch now and then, so that its share of the time is one that grows with
the batches that wait. Not owned: looking and waiting (`gate`). Place in the path: step 3, between two layers of a microbatch.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

Mode = Literal["serves", "trains"]


class Compute(BaseModel):
    """How cores that engines and the trainer share are divided."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)

    follow_load: bool = True
    """Whether training waits for serving at all; false: it runs whenever there is a batch, at its `nice`."""
    busy_requests: int = Field(default=1, ge=1)
    """Requests in flight, over all engines, from which on serving has the cores."""
    quiet_s: float = Field(default=0.3, ge=0)
    """Seconds without them before training goes on; longer: fewer turns, and less trained between two bursts."""
    min_share: float = Field(default=0.1, gt=0, le=1)
    """Share of the time that training gets at least with one batch waiting; twice that with two, and so on."""
    max_share: float = Field(default=0.5, gt=0, le=1)
    """Where that growth ends: serving has the rest for certain."""
    look_s: float = Field(default=0.05, gt=0)
    """Seconds between two looks at the engines."""
    nice: int = Field(default=10, ge=0, le=19)
    """The trainer's niceness: what the kernel does with a layer that a request falls into."""
    grace_s: float = Field(default=5.0, ge=0)
    """Seconds that a burst is left alone before training gets its share of it."""


@dataclass(slots=True, frozen=True)
class Load:
    """What was seen: requests `in_flight`, requests received so far (None: not told), batches ready to be trained on."""

    in_flight: int
    num_received: int | None = None
    backlog: float = 1.0


@dataclass(slots=True, frozen=True)
class Decision:
    """Whose turn it is and since when (monotonic s), and why, for a person."""

    mode: Mode
    since: float
    reason: str


class Controller:
    """Remembers what hysteresis and shares need. One thread uses it."""

    def __init__(self, compute: Compute, now: float) -> None:
        self._compute = compute
        self._busy_at = -math.inf
        self._decision = Decision("trains", now, "quiet so far")
        self._due_at = now + compute.grace_s
        self._has_trained = False
        self.arrivals = Arrivals()
        self.share = Share(now)
        self.stretch_s = 0.0

    def decide(self, load: Load, now: float) -> Decision:
        """Whose turn it is. Serving takes over at once; training once it has been quiet for `quiet_s`, or its share is due."""
        rate = self.arrivals.see(load.num_received, now)
        expected = rate * self.stretch_s
        if load.in_flight >= self._compute.busy_requests:
            self._busy_at = now
            return self._turn("serves", now, f"{load.in_flight} in flight")
        if expected >= 1.0:
            self._busy_at = now
            return self._turn("serves", now, f"{rate:.1f} requests/s: {expected:.1f} would come before training could stop")
        quiet_s = now - self._busy_at
        if self._decision.mode == "serves" and quiet_s < self._compute.quiet_s:
            return self._turn("serves", now, f"quiet for {quiet_s:.2f} s only")
        return self._turn("trains", now, "quiet" if math.isinf(quiet_s) else f"quiet for {quiet_s:.0f} s")

    def is_due(self, now: float) -> bool:
        """Whether training gets a microbatch although serving has the cores."""
        return now >= self._due_at

    def computed(self, taken_s: float) -> None:
        """Training has computed for so long without a look whether it may."""
        self.stretch_s = taken_s if not self.stretch_s else 0.8 * self.stretch_s + 0.2 * taken_s
        self._has_trained = True

    def trained(self, load: Load, taken_s: float, now: float) -> None:
        """A microbatch of `taken_s` has ended; the next one under load is due when this one was the floor's share of the time."""
        floor = min(self._compute.max_share, self._compute.min_share * max(load.backlog, 1.0))
        self._due_at = now + taken_s * (1 - floor) / floor
        self._has_trained = True
        self.share.add(now, trained=True)

    def _turn(self, mode: Mode, now: float, reason: str) -> Decision:
        since = self._decision.since if mode == self._decision.mode else now
        if since == now and mode == "serves" and self._has_trained:  # a burst begins; without training in between it goes on
            self._due_at, self._has_trained = now + self._compute.grace_s, False
        self._decision = Decision(mode, since, reason)
        return self._decision


class Arrivals:
    """Requests a second, from a counter, over about `memory_s` seconds."""

    def __init__(self, memory_s: float = 2.0) -> None:
        self._memory_s = memory_s
        self._last: tuple[int, float] | None = None
        self.rate = 0.0

    def see(self, num_received: int | None, now: float) -> float:
        """The rate after this look; an engine that started again begins to count anew."""
        if num_received is None:
            return self.rate
        if self._last is not None and now > self._last[1]:
            elapsed = now - self._last[1]
            new = max(num_received - self._last[0], 0) / elapsed
            kept = math.exp(-elapsed / self._memory_s)
            self.rate = kept * self.rate + (1 - kept) * new
        self._last = (num_received, now)
        return self.rate


class Share:
    """The share that training had of the time in which there was something to train on, over about `window_s` seconds."""

    def __init__(self, now: float, window_s: float = 10.0) -> None:
        self._window_s = window_s
        self._trained, self._waited = window_s, 0.0
        self._at = now

    def add(self, now: float, trained: bool) -> None:
        """The time since the last call was spent training, or waiting for serving."""
        kept = self._kept(now)
        new = self._window_s * (1 - kept)  # the decayed sum of the time since then; both sums add up to `window_s`
        self._trained = kept * self._trained + (new if trained else 0.0)
        self._waited = kept * self._waited + (0.0 if trained else new)
        self._at = now

    def skip(self, now: float) -> None:
        """The time since the last call was neither: there was nothing to train on."""
        self._at = now

    def of(self, now: float) -> float:
        """The share by now, the time since the last call counted as waiting."""
        kept = self._kept(now)
        return kept * self._trained / (kept * (self._trained + self._waited) + self._window_s * (1 - kept))

    def _kept(self, now: float) -> float:
        return math.exp(-(now - self._at) / self._window_s)

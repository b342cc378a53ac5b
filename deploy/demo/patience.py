"""Waits that end: a phase in which nothing new happens for too long is a failure with a sentence."""

import time

from deploy.demo.actors import Actor
from deploy.errors import DemoFailed
from deploy.launcher.running import RunningStack

_POLL_S = 0.25


class Patience:
    """``limit_s`` seconds without anything new, then DemoFailed; also fails when the stack or an actor ended badly."""

    def __init__(self, what: str, limit_s: float, stack: RunningStack, *actors: Actor) -> None:
        self._what = what
        self._limit_s = limit_s
        self._stack = stack
        self._actors = actors
        self._last_new = time.monotonic()

    def wait(self, something_new: bool) -> None:
        """Called once a round with whether the round brought something.

        Raises:
            DemoFailed: nothing new for too long, or an actor failed.
            StartFailed: Headrace ended by itself.
        """
        now = time.monotonic()
        if something_new:
            self._last_new = now
        self._stack.check()
        for actor in self._actors:
            actor.check()
        if now - self._last_new > self._limit_s:
            raise DemoFailed(f"{self._what}: nothing new for {self._limit_s:g} s. The logs are in {self._stack.paths.log_dir}.")
        time.sleep(_POLL_S)

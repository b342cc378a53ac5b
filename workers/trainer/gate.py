"""The gate between two layers: training passes when the cores are its own, else waits, and says which way it stands.

Owns the thread that looks at the engines, the wait, and the file that `headrace status` reads. It lives on the first rank; the
others wait for it in their next collective. Not owned: the decision (`compute`).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import httpx
import msgspec

from workers.inference.client.tls import trust
from workers.trainer.compute import Compute, Controller, Decision, Load

_BACKLOG_EVERY_S: Final = 30.0
_TELL_EVERY_S: Final = 1.0
_TIMEOUT_S: Final = 1.0


class ComputeState(msgspec.Struct, frozen=True):
    """`run/compute.json`: whose turn it is (`mode`) since `since_s` seconds and why, what the trainer does, and the numbers.

    `trained_share` is that of the last seconds in which there was something to train on.
    """

    mode: str
    reason: str
    trainer: str
    since_s: float
    in_flight: int
    arrivals_per_s: float
    backlog: float
    trained_share: float
    at_us: int


class _EngineLoad(msgspec.Struct, frozen=True):
    num_in_flight: int
    num_received: int | None = None


class Gate:
    """Context manager around a trainer's life: looks at `urls` every `look_s`.

    `pass_` is called before each microbatch, `give_way` between its layers, forwards and backwards.

    `backlog` gives the batches that are ready; it is asked now and then, on the looking thread. `waited_s` are the seconds waited
    in all; once `stop` is set nothing waits.
    """

    def __init__(
        self, compute: Compute, urls: Sequence[str], tell: Path, backlog: Callable[[], float], stop: threading.Event
    ) -> None:
        self._compute, self._urls, self._tell, self._backlog = compute, list(urls), tell, backlog
        self._stop = stop
        self._controller = Controller(compute, time.monotonic())
        self._load = Load(0)
        self._looked = threading.Condition()
        self._ended = False
        self._began: float | None = None
        self._paused_s = 0.0
        self._computing_since = 0.0
        self._is_due = False
        self._doing = "has no batch"
        self.waited_s = 0.0
        self._told_at = -_TELL_EVERY_S
        self._thread = threading.Thread(target=self._look_until_ended, name="gate", daemon=True)

    def __enter__(self) -> Self:
        if self._compute.follow_load:
            self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.leave()
        with self._looked:
            self._ended = True
            self._looked.notify_all()
        if self._thread.is_alive():
            self._thread.join()
        self._tell.unlink(missing_ok=True)

    def pass_(self) -> None:
        """Wait until the next microbatch may be computed."""
        if not self._compute.follow_load:
            return
        with self._looked:
            started = time.monotonic()
            self._account(started)
            self._began = self._wait(started)
            self._paused_s = 0.0

    def give_way(self) -> None:
        """Wait inside a microbatch, unless it was due."""
        if not self._compute.follow_load or self._began is None or self._is_due:
            return
        with self._looked:
            started = time.monotonic()
            self._controller.computed(started - self._computing_since)
            self._controller.share.add(started, trained=True)
            self._paused_s += self._wait(started) - started

    def _wait(self, started: float) -> float:
        """Until training may go on; gives when that is."""
        now, self._doing = started, "waits"
        while not self._may_train(now):
            self._looked.wait(self._compute.look_s)
            now = time.monotonic()
        self._controller.share.add(now, trained=False)
        self.waited_s += now - started
        self._computing_since = now
        return now

    def leave(self) -> None:
        """The step's computing is over: nothing is trained until the next `pass_`."""
        with self._looked:
            self._account(time.monotonic())
            self._doing = "has no batch"

    def _may_train(self, now: float) -> bool:
        decision, self._doing = self._controller.decide(self._load, now), "computes"
        if decision.mode == "trains" or self._ended or self._stop.is_set():
            return True
        if self._controller.is_due(now):
            self._doing, self._is_due = "computes a microbatch that was due", True
            return True
        self._doing = "waits"
        return False

    def _account(self, now: float) -> None:
        """The time since the last pass was a microbatch, or there was nothing to do."""
        controller = self._controller
        if self._began is None:
            controller.share.skip(now)
            return
        controller.trained(self._load, now - self._began - self._paused_s, now)
        self._began, self._is_due = None, False

    def _look_until_ended(self) -> None:
        backlog, asked_at = 1.0, -_BACKLOG_EVERY_S
        with httpx.Client(timeout=_TIMEOUT_S, trust_env=False, verify=trust()) as client:
            while not self._ended:
                seen = [told for url in self._urls if (told := _ask(client, url)) is not None]
                if time.monotonic() - asked_at >= _BACKLOG_EVERY_S:
                    backlog, asked_at = self._backlog(), time.monotonic()
                counts = [told.num_received for told in seen if told.num_received is not None]
                load = Load(sum(told.num_in_flight for told in seen), sum(counts) if counts else None, backlog)
                with self._looked:
                    self._load = load
                    now = time.monotonic()
                    self._say(self._controller.decide(load, now), now)
                    self._looked.notify_all()
                    self._looked.wait_for(lambda: self._ended, self._compute.look_s)

    def _say(self, decision: Decision, now: float) -> None:
        if now - self._told_at < _TELL_EVERY_S:
            return
        self._told_at = now
        load, controller = self._load, self._controller
        state = ComputeState(
            decision.mode, decision.reason, self._doing, round(now - decision.since, 1), load.in_flight,
            round(controller.arrivals.rate, 2), load.backlog, round(controller.share.of(now), 3), time.time_ns() // 1000,
        )  # fmt: skip
        self._tell.parent.mkdir(parents=True, exist_ok=True)
        temporary = self._tell.with_suffix(".new")
        temporary.write_bytes(msgspec.json.encode(state))
        temporary.rename(self._tell)


def _ask(client: httpx.Client, url: str) -> _EngineLoad | None:
    """None where the engine does not answer: what it cannot serve needs no cores."""
    try:
        return msgspec.json.decode(client.get(f"{url}/headrace/engine").content, type=_EngineLoad)
    except (httpx.HTTPError, msgspec.DecodeError):
        return None

"""What the gateway does by the clock: refresh the key table, ask the workers how they are, enforce time limits.

A failed refresh keeps what is known; it is logged once when it begins and once when it ends.
"""

import asyncio
import contextlib
import logging
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable

import msgspec

from gateway.errors import UpstreamError
from gateway.fleet.follow import Follower
from gateway.fleet.learn import ask, learn_models, learn_more
from gateway.fleet.register import Register
from gateway.state import Gateway
from gateway.upstream.fetch import Request, fetch
from router.workers import Health, Worker

log = logging.getLogger(__name__)

POLL_S = 1.0
SWEEP_S = 0.25
_MAX_FAILURES = 3


async def refresh_keys(gateway: Gateway) -> None:
    """Fetch the key table.

    Raises:
        UpstreamError: the data proxy does not answer. msgspec.DecodeError: it answered something else.
    """
    request = Request("GET", "/v1/keys/table", [(b"authorization", b"Bearer " + gateway.gateway_key.encode())])
    answer = await fetch(gateway.pool, gateway.dataproxy, request, gateway.settings.control_timeout_s)
    if answer.status != 200:
        raise UpstreamError(f"the data proxy answered {answer.status} to the gateway's key")
    gateway.keys.load(answer.body)


class KeyPoller:
    """Refreshes the table, and says in the log when that stops and starts working."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self._failing = False

    async def __call__(self) -> None:
        """One round."""
        try:
            await refresh_keys(self._gateway)
        except (UpstreamError, msgspec.DecodeError) as error:
            if not self._failing:
                log.warning("the key table cannot be refreshed, the last one stays: %s", error)
            self._failing = True
        else:
            if self._failing:
                log.info("the key table is refreshed again")
            self._failing = False


async def tell_gaps(gateway: Gateway) -> None:
    """Tell the data proxy of calls that went unrecorded."""
    await gateway.gaps.tell(gateway.pool, gateway.dataproxy, gateway.gateway_key, gateway.settings.control_timeout_s)


class WorkerPoller:
    """Keeps each worker's health and models. Only several failures in a row take one down: a busy engine is slow to answer."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self._failures: Counter[str] = Counter()
        self.register = Register(gateway.settings.data_dir.expanduser() / "gateway")
        self.follow = Follower(gateway, self.register)

    async def __call__(self) -> None:
        """One round over all workers, at once."""
        self.follow(time.time())
        async with asyncio.TaskGroup() as group:
            for worker in self._gateway.workers:
                group.create_task(self._check(worker))
        self._gateway.admission.watch(self._gateway.workers)

    async def _check(self, worker: Worker) -> None:
        before = worker.health
        try:
            ready = await ask(self._gateway, worker, "/ready")
            if not worker.models or before is Health.DOWN:
                await learn_models(self._gateway, worker)
        except (UpstreamError, msgspec.DecodeError) as error:
            self._failures[worker.url] += 1
            if self._failures[worker.url] >= _MAX_FAILURES:
                worker.health = Health.DOWN
                worker.instance = ""  # whoever answers here next may be another one
            if before is not worker.health:
                log.warning("worker is down worker=%s: %s", worker.url, error)
            return
        self._failures[worker.url] = 0
        if ready.status != 200 and before is Health.READY:
            worker.health = Health.WAITING
        if silent := await learn_more(self._gateway, worker):
            log.debug("worker does not tell its load worker=%s: %s", worker.url, silent)
        if refusal := worker.refusal:
            worker.health = Health.DOWN
        elif ready.status == 200:  # one that was down and is not ready yet is still starting
            worker.health = Health.READY
        if before is not worker.health:
            log.info("worker is %s worker=%s %s", worker.health.name.lower(), worker.url, refusal)


async def repeat(action: Callable[[], Awaitable[None]], interval_s: float) -> None:
    """Run ``action`` for ever, ``interval_s`` after each end, whatever it raises: a gateway that no longer learns of revoked keys
    or dead workers would be worse than one that says what went wrong and asks again.
    """
    while True:
        await _attempt(action)
        await asyncio.sleep(interval_s)


async def first_round(actions: Iterable[Callable[[], Awaitable[None]]], timeout_s: float) -> None:
    """Run ``actions`` once each, for at most ``timeout_s``: so whoever begins to serve knows its keys and workers."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(timeout_s):
            await asyncio.gather(*map(_attempt, actions))


async def _attempt(action: Callable[[], Awaitable[None]]) -> None:
    try:
        await action()
    except Exception:
        log.exception("a round of polling failed")


async def sweep(gateway: Gateway) -> None:
    """Enforce the time limits of exchanges with the engine and of agents' connections, and of those who wait for one."""
    gateway.pool.sweep()
    now = asyncio.get_running_loop().time()
    for agent in list(gateway.agents):
        agent.sweep(now)
    gateway.admission.sweep()

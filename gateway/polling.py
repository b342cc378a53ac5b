"""What the gateway does by the clock: refresh the key table, ask the workers how they are, enforce time limits.

A failed refresh keeps what is known; it is logged once when it begins and once when it ends.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable

import msgspec

from gateway.errors import UpstreamError
from gateway.state import Gateway
from gateway.upstream.fetch import Fetched, Request, fetch
from router.workers import Health, Worker

log = logging.getLogger(__name__)

POLL_S = 1.0
SWEEP_S = 0.25
_MAX_FAILURES = 3


class _Model(msgspec.Struct):
    id: str


class _ModelList(msgspec.Struct):
    data: list[_Model]


class _Load(msgspec.Struct):
    num_running_reqs: int = 0
    num_waiting_reqs: int = 0
    max_running_requests: int = 0


class _Loads(msgspec.Struct):
    loads: list[_Load] = []


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
            self._gateway.metrics.set("headrace_gateway_key_table_age_seconds", time.time() - self._gateway.keys.loaded_at)


class WorkerPoller:
    """Keeps each worker's health and models. Only several failures in a row take one down: a busy engine is slow to answer."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self._failures = dict.fromkeys(gateway.origins, 0)

    async def __call__(self) -> None:
        """One round over all workers, at once."""
        async with asyncio.TaskGroup() as group:
            for worker in self._gateway.workers:
                group.create_task(self._check(worker))
        self._gateway.admission.watch(self._gateway.workers)

    async def _check(self, worker: Worker) -> None:
        before = worker.health
        try:
            ready = await self._get(worker, "/ready")
            if not worker.models or before is Health.DOWN:
                await self._learn_models(worker)
            await self._learn_load(worker)
        except (UpstreamError, msgspec.DecodeError) as error:
            self._failures[worker.url] += 1
            if self._failures[worker.url] >= _MAX_FAILURES:
                worker.health = Health.DOWN
            if before is not worker.health:
                log.warning("worker is down worker=%s: %s", worker.url, error)
            return
        self._failures[worker.url] = 0
        if ready.status == 200:
            worker.health = Health.READY
        elif before is Health.READY:  # one that was down and is not ready yet is still starting
            worker.health = Health.WAITING
        if before is not worker.health:
            log.info("worker is %s worker=%s", worker.health.name.lower(), worker.url)

    async def _get(self, worker: Worker, path: str) -> Fetched:
        gateway = self._gateway
        return await fetch(gateway.pool, gateway.origins[worker.url], Request("GET", path, []), gateway.settings.control_timeout_s)

    async def _learn_load(self, worker: Worker) -> None:
        """How many it runs and may run, over its ranks; an engine without ``/v1/loads`` is taken at the setting's word."""
        answer = await self._get(worker, "/v1/loads?include=core")
        loads = msgspec.json.decode(answer.body, type=_Loads).loads if answer.status == 200 else []
        most = sum(load.max_running_requests for load in loads)
        worker.max_running = most or self._gateway.settings.worker_max_running

    async def _learn_models(self, worker: Worker) -> None:
        answer = await self._get(worker, "/v1/models")
        worker.models = frozenset(model.id for model in msgspec.json.decode(answer.body, type=_ModelList).data)


async def repeat(action: Callable[[], Awaitable[None]], interval_s: float) -> None:
    """Run ``action`` for ever, ``interval_s`` after each end, whatever it raises: a gateway that no longer learns of revoked keys
    or dead workers would be worse than one that says what went wrong and asks again.
    """
    while True:
        try:
            await action()
        except Exception:
            log.exception("a round of polling failed; the next comes in %s s", interval_s)
        await asyncio.sleep(interval_s)


async def sweep(gateway: Gateway) -> None:
    """Enforce the time limits of exchanges with the engine and of agents' connections, and of those who wait for one."""
    gateway.pool.sweep()
    now = asyncio.get_running_loop().time()
    for agent in list(gateway.agents):
        agent.sweep(now)
    gateway.admission.sweep()

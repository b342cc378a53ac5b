"""What a worker says of itself beside its readiness: models, load, and what its plug-in counts. Asked once a poll.

Only the models are needed to serve. A stock engine, or another provider's proxy, has no more to say, and that is fine.
"""

import msgspec

from gateway.errors import UpstreamError
from gateway.metrics import Metrics
from gateway.state import Gateway
from gateway.upstream.fetch import Fetched, Request, fetch
from router.workers import Worker


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


class _Continuity(msgspec.Struct):
    extended: int = 0
    rendered: dict[str, int] = {}


class _EngineState(msgspec.Struct):
    weight_version: str = ""
    instance: str = ""
    num_aborted: int = 0
    continuity: _Continuity | None = None


async def ask(gateway: Gateway, worker: Worker, path: str) -> Fetched:
    """``GET path`` of ``worker``. Raises UpstreamError."""
    return await fetch(gateway.pool, gateway.origins[worker.url], Request("GET", path, []), gateway.settings.control_timeout_s)


async def learn_models(gateway: Gateway, worker: Worker) -> None:
    """Which models it serves.

    Raises:
        UpstreamError: it does not answer. msgspec.DecodeError: it answers something else.
    """
    answer = await ask(gateway, worker, "/v1/models")
    worker.models = frozenset(model.id for model in msgspec.json.decode(answer.body, type=_ModelList).data)


async def learn_load(gateway: Gateway, worker: Worker) -> None:
    """How many calls it holds and may run, over its ranks; the setting's word where it does not say.

    Raises:
        UpstreamError: it does not answer. msgspec.DecodeError: it answers something else.
    """
    answer = await ask(gateway, worker, "/v1/loads?include=core")
    loads = msgspec.json.decode(answer.body, type=_Loads).loads if answer.status == 200 else []
    held = sum(load.num_running_reqs + load.num_waiting_reqs for load in loads)
    worker.num_elsewhere = max(0, held - worker.num_in_flight)
    worker.max_running = sum(load.max_running_requests for load in loads) or gateway.settings.worker_max_running


async def learn_counts(gateway: Gateway, worker: Worker) -> None:
    """What the plug-in counts, for ``/metrics``: turns that extended earlier ids, turns that were rendered and why.

    Raises:
        UpstreamError: it does not answer. msgspec.DecodeError: it answers something else.
    """
    answer = await ask(gateway, worker, "/headrace/engine")
    if answer.status != 200:
        return
    state = msgspec.json.decode(answer.body, type=_EngineState)
    metrics, where = gateway.metrics, ("worker", worker.url)
    worker.version, worker.instance = state.weight_version, state.instance
    metrics.clear("headrace_engine_weight_version", worker.url)
    metrics.set("headrace_engine_weight_version", 1, *where, "version", state.weight_version)
    metrics.set("headrace_engine_aborted_total", state.num_aborted, *where)
    if state.continuity is not None:
        metrics.set("headrace_engine_turns_extended_total", state.continuity.extended, *where)
        for reason, num in state.continuity.rendered.items():
            metrics.set("headrace_engine_turns_rendered_total", num, *where, "reason", reason)


def show(metrics: Metrics, worker: Worker, now: float) -> None:
    """The router's view of ``worker`` as gauges; ``now`` is ``time.monotonic()``."""
    where = ("worker", worker.url)
    metrics.set("headrace_gateway_in_flight", worker.num_in_flight, *where)
    metrics.set("headrace_gateway_worker_elsewhere", worker.num_elsewhere, *where)
    metrics.set("headrace_gateway_worker_health", worker.health, *where)
    metrics.set("headrace_gateway_worker_draining", worker.draining, *where)
    metrics.set("headrace_gateway_worker_ejected", worker.ejection.holds(now), *where)


async def learn_more(gateway: Gateway, worker: Worker) -> str:
    """Load and counts, as far as it tells; what went wrong, or empty."""
    try:
        await learn_load(gateway, worker)
        await learn_counts(gateway, worker)
    except (UpstreamError, msgspec.DecodeError) as error:
        return str(error)
    return ""

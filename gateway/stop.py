"""Ends what still runs: one generation in an engine, and all calls when the gateway stops."""

import asyncio
import logging

import msgspec

from gateway.call import Call
from gateway.errors import UpstreamError
from gateway.state import Gateway
from gateway.upstream.fetch import Request, fetch
from router.workers import Worker

log = logging.getLogger(__name__)


async def stop_generation(gateway: Gateway, worker: Worker, call: Call) -> None:
    """Tell the engine to stop: closing the connection alone does not end a call that is not streamed."""
    body = msgspec.json.encode({"rid": call.completion_id})
    request = Request("POST", "/abort_request", [(b"content-type", b"application/json")], body)
    try:
        await fetch(gateway.pool, gateway.origins[worker.url], request, gateway.settings.control_timeout_s)
    except UpstreamError as error:
        log.warning("abort failed event=%s worker=%s: %s", call.event_id, worker.url, error)


async def stop_calls(gateway: Gateway) -> None:
    """End the calls that outlasted the drain; return once that is recorded and the engines know, or too much time has passed."""
    for task in list(gateway.waiting):
        task.cancel()
    ends = [call.stop() for call in list(gateway.running)]
    if left := [*ends, *gateway.tasks]:
        await asyncio.wait(left, timeout=2 * gateway.settings.control_timeout_s)

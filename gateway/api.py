"""Every route but the hot one, on FastAPI: models, feedback, health, readiness, metrics. Errors in the path's form."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.metadata import version

from fastapi import FastAPI, Request, Response
from fastapi.responses import JSONResponse, PlainTextResponse
from starlette.exceptions import HTTPException

from gateway.answers import error_headers
from gateway.bodies import read_body
from gateway.dialects.forms import form_of
from gateway.errors import ClientLeft, Refused
from gateway.feedback import relay_feedback
from gateway.fleet.learn import show
from gateway.fleet.routes import add_fleet
from gateway.headers import agent_headers, credential, header
from gateway.ingest import add_ingest
from gateway.mcp.routes import add_mcp, make_relay
from gateway.metrics import merge
from gateway.models import list_models, show_model
from gateway.openapi import document
from gateway.peers import OWN, metrics_of_peers
from gateway.polling import POLL_S, SWEEP_S, KeyPoller, WorkerPoller, first_round, repeat, sweep, tell_gaps
from gateway.spans import FLUSH_S
from gateway.state import Gateway
from gateway.stop import stop_calls
from gateway.stored import add_stored


def create_api(gateway: Gateway) -> FastAPI:
    """The routes of ``gateway``; its lifespan runs the pollers and, at the end, flushes the journal."""
    poller = WorkerPoller(gateway)
    mcp = make_relay(gateway)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        keys = KeyPoller(gateway)
        await first_round((keys, poller), gateway.settings.control_timeout_s)
        async with asyncio.TaskGroup() as group:
            actions = ((keys, POLL_S), (poller, POLL_S), (lambda: tell_gaps(gateway), POLL_S), (lambda: sweep(gateway), SWEEP_S))
            tasks = [group.create_task(repeat(action, interval_s)) for action, interval_s in actions]
            if (spans := gateway.spans) is not None:
                tasks.append(group.create_task(repeat(lambda: spans.flush(gateway.pool), FLUSH_S)))
            try:
                yield
            finally:
                for task in tasks:
                    task.cancel()
        await stop_calls(gateway)
        await tell_gaps(gateway)
        if spans is not None:
            await spans.flush(gateway.pool)
        if mcp is not None:
            await mcp.aclose()
        gateway.pool.close()
        gateway.admission.close()
        await asyncio.to_thread(gateway.journal.close)

    api = FastAPI(lifespan=lifespan, docs_url=None, redoc_url=None, openapi_url=None)
    _add_calls(api, gateway)
    add_stored(api, gateway)
    add_ingest(api, gateway)
    add_mcp(api, gateway, mcp)
    add_fleet(api, gateway, poller.register, poller.follow)
    _add_operations(api, gateway)
    _add_errors(api)
    return api


def _add_calls(api: FastAPI, gateway: Gateway) -> None:
    @api.get("/v1/models")
    async def models(request: Request) -> Response:
        identity = await gateway.keys.caller(credential(request.scope["headers"]))
        return Response(await list_models(gateway, identity), media_type="application/json")

    @api.get("/v1/models/{model:path}")
    async def one_model(request: Request, model: str) -> Response:
        identity = await gateway.keys.caller(credential(request.scope["headers"]))
        return Response(await show_model(gateway, identity, model), media_type="application/json")

    @api.post("/v1/feedback")
    @api.post("/feedback")
    async def feedback(request: Request) -> Response:
        headers, settings = request.scope["headers"], gateway.settings
        length, encoding = header(headers, b"content-length"), header(headers, b"content-encoding")
        body = await read_body(request.receive, length, encoding, settings.max_body_bytes, settings.body_timeout_s)
        answer = await relay_feedback(gateway, headers, body)
        response = Response(answer.body, answer.status)
        response.raw_headers += agent_headers(answer.head.headers)
        return response


def _add_operations(api: FastAPI, gateway: Gateway) -> None:
    @api.get("/health")
    async def health() -> dict[str, str]:
        return {"status": "ok"}

    @api.get("/openapi.json")
    async def openapi() -> Response:
        return JSONResponse(document(version("headrace")))

    @api.get("/ready")
    async def ready() -> Response:
        state = {
            "keys_loaded": gateway.keys.loaded,
            "journal": gateway.journal.failure or "ok",
            "workers": {worker.url: worker.health.name.lower() for worker in gateway.workers},
            "models": sorted({model for worker in gateway.workers for model in worker.models}),
        }
        return JSONResponse(state, 200 if gateway.ready else 503)

    @api.get("/metrics")
    async def metrics(process: str = "") -> Response:
        gateway.metrics.set("headrace_gateway_waiting", gateway.admission.num_waiting)
        for worker in gateway.workers:
            show(gateway.metrics, worker, time.monotonic())
        gateway.metrics.set("headrace_gateway_key_table_age_seconds", gateway.keys.age_s)
        gateway.metrics.set("headrace_gateway_journal_failed", gateway.journal.failure is not None)
        gateway.metrics.set("headrace_gateway_unrecorded_calls_total", gateway.gaps.num_calls)
        text = gateway.metrics.render(gateway.process, engines=process != OWN)
        if gateway.process and process != OWN:
            text = merge([text, *await metrics_of_peers(gateway)])
        return PlainTextResponse(text, media_type="text/plain; version=0.0.4")


def _add_errors(api: FastAPI) -> None:
    @api.exception_handler(Refused)
    async def refused(request: Request, error: Refused) -> Response:
        response = Response(form_of(request.url.path).body(error, ""), error.status)
        response.raw_headers += error_headers(error)
        return response

    @api.exception_handler(ClientLeft)
    async def left(_: Request, error: ClientLeft) -> Response:
        return Response(status_code=499)

    @api.exception_handler(HTTPException)
    async def unknown(request: Request, error: HTTPException) -> Response:
        code = "method_not_allowed" if error.status_code == 405 else "unknown_path"
        message = f"{error.detail}: this gateway does not serve {request.method} here"
        return await refused(request, Refused(error.status_code, code, message))

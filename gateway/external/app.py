"""The HTTP side: the gateway's paths for workers, answered for external models; errors in the form of the agent's dialect."""

import asyncio
import logging
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from gateway.dialects import BY_PATH, Dialect
from gateway.dialects.forms import form_of
from gateway.errors import Refused
from gateway.external.catalog import Catalog
from gateway.external.errors import ProviderFailed
from gateway.external.service import Service

log = logging.getLogger(__name__)
_BAD_GATEWAY = 502


class Api:
    """The routes over ``catalog``. ``max_calls`` is what the gateway is told that fits at once."""

    def __init__(self, catalog: Catalog, timeout_s: float, max_calls: int) -> None:
        self._catalog = catalog
        self._service = Service(catalog, timeout_s)
        self._max_calls = max_calls

    def app(self) -> Starlette:
        """The ASGI application."""
        routes = [Route(path, self._handler(dialect), methods=["POST"]) for path, dialect in BY_PATH.items()]
        routes += [
            Route("/v1/responses/{rid}", self._stored("retrieve"), methods=["GET"]),
            Route("/v1/responses/{rid}", self._stored("delete"), methods=["DELETE"]),
            Route("/v1/responses/{rid}/cancel", self._stored("cancel"), methods=["POST"]),
            Route("/health", _ok),
            Route("/ready", _ok),
            Route("/v1/models", self._models),
            Route("/v1/loads", self._loads),
            Route("/abort_request", _ok, methods=["POST"]),  # a call ends when its connection does
        ]
        return Starlette(routes=routes, lifespan=self._lifespan, exception_handlers={Exception: _broken})

    @asynccontextmanager
    async def _lifespan(self, _: Starlette) -> AsyncIterator[None]:
        yield
        await self._service.close()

    async def _models(self, _: Request) -> Response:
        data = [{"id": name, "object": "model", "created": 0, "owned_by": "external"} for name in self._catalog]
        return JSONResponse({"object": "list", "data": data})

    async def _loads(self, _: Request) -> Response:
        return JSONResponse({"loads": [{"max_running_requests": self._max_calls}]})

    def _handler(self, dialect: Dialect) -> Any:
        async def handle(request: Request) -> Response:
            rid = request.headers.get("x-headrace-rid") or f"{dialect.prefix}{uuid.uuid4().hex}"
            try:
                answer = await _while_connected(request, self._answer(dialect, request, rid))
            except Refused as refused:
                return _refusal(request, refused, rid)
            except ProviderFailed as failed:
                log.warning("the provider refused a call id=%s status=%s", rid, failed.refused.status)
                return _refusal(request, failed.refused, rid)
            if answer is None:
                return Response(status_code=499)
            if isinstance(answer, bytes):
                return Response(answer, media_type="application/json")
            return StreamingResponse(_to_the_end(answer, dialect, rid), media_type="text/event-stream")

        return handle

    def _stored(self, action: str) -> Any:
        async def handle(request: Request) -> Response:
            rid = request.path_params["rid"]
            try:
                return Response(await self._service.stored(action, rid), media_type="application/json")
            except Refused as refused:
                return _refusal(request, refused, rid)
            except ProviderFailed as failed:
                return _refusal(request, failed.refused, rid)

        return handle

    async def _answer(self, dialect: Dialect, request: Request, rid: str) -> bytes | AsyncIterator[bytes]:
        try:
            body = msgspec.json.decode(await request.body())
        except (msgspec.DecodeError, RecursionError) as error:
            raise Refused(400, "invalid_json", "the body is not JSON") from error
        if not isinstance(body, dict):
            raise Refused(400, "invalid_json", "the body must be a JSON object")
        try:
            return await self._service.answer(dialect, body, request.headers, rid)
        except TimeoutError as error:
            raise ProviderFailed(
                Refused(504, "provider_timeout", "the provider took longer than the time limit; try again")
            ) from error


async def _ok(_: Request) -> Response:
    return JSONResponse({"status": "ok"})


async def _while_connected(request: Request, work: Any) -> Any:
    """The result of ``work``, or None if the other side left first: a provider is not paid for an answer that nobody waits for."""
    await request.body()
    task, left = asyncio.ensure_future(work), asyncio.ensure_future(_disconnected(request))
    try:
        await asyncio.wait((task, left), return_when=asyncio.FIRST_COMPLETED)
        return task.result() if task.done() else None
    finally:
        left.cancel()
        task.cancel()


async def _disconnected(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


async def _to_the_end(events: AsyncIterator[bytes], dialect: Dialect, rid: str) -> AsyncIterator[bytes]:
    """``events``, and the provider's error where it fails in the middle; the stream is then left without its end."""
    try:
        async for event in events:
            yield event
    except ProviderFailed as failed:
        log.warning("the provider failed in the middle of a stream id=%s status=%s", rid, failed.refused.status)
        yield dialect.form.stream_event(failed.refused, rid)


async def _broken(request: Request, error: Exception) -> Response:
    """What nobody foresaw, most likely inside litellm: the server logs it, the agent gets its dialect's error."""
    refused = Refused(500, "internal_error", f"asking the provider failed ({type(error).__name__}); the log says why")
    return _refusal(request, refused, request.headers.get("x-headrace-rid", ""))


def _refusal(request: Request, refused: Refused, rid: str) -> Response:
    headers = {"retry-after": str(refused.retry_after_s)} if refused.retry_after_s is not None else {}
    body = form_of(request.url.path).body(refused, rid)
    status = refused.status if 400 <= refused.status < 600 else _BAD_GATEWAY
    return Response(body, status, headers, media_type="application/json")

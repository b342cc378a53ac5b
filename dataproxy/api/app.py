"""The ASGI app. The only place that turns errors into HTTP."""

import logging
from collections.abc import Callable

from fastapi import FastAPI, Request, Response
from sqlalchemy.exc import OperationalError
from starlette.types import ASGIApp, Receive, Scope, Send

from atdp.errors import AtdpError
from dataproxy.api import (
    admin_routes,
    agent_routes,
    audit_routes,
    events_routes,
    export_routes,
    governance_routes,
    order_routes,
    otlp_routes,
    pseudonym_routes,
    quarantine_routes,
    reading_routes,
    recording_routes,
    redaction_routes,
    retain_routes,
    review_routes,
    tenant_routes,
    training_routes,
    trajectory_routes,
    vault_routes,
    view_routes,
    watch_routes,
    witness_routes,
)
from dataproxy.api.answers import error_answer, json_answer
from dataproxy.api.on_record import OnRecord
from dataproxy.console.app import create_console
from dataproxy.errors import DataProxyError, NotAllowed, NotFound, Refused, Unauthenticated
from dataproxy.redact import RedactionFailed
from dataproxy.services import Services
from dataproxy.store.scope import NOBODY, scoped

logger = logging.getLogger(__name__)

_STATUS: dict[type[Exception], tuple[int, str]] = {
    Unauthenticated: (401, "invalid_api_key"),
    NotAllowed: (403, "role_not_allowed"),
    NotFound: (404, "not_found"),
    Refused: (400, "invalid_request"),
    AtdpError: (400, "invalid_request"),
    DataProxyError: (500, "internal"),
}


def create_app(services: Services) -> FastAPI:
    """The app over ``services``; handlers block on the store, so they run in the thread pool."""
    app = FastAPI(title="Headrace data proxy", openapi_url=None)
    app.state.services = services
    app.add_middleware(OnRecord, services=services)
    app.add_middleware(_Unbound)
    app.add_api_route("/health", _health, methods=["GET"])
    for routes in (
        admin_routes,
        agent_routes,
        recording_routes,
        governance_routes,
        training_routes,
        reading_routes,
        audit_routes,
        retain_routes,
        review_routes,
        events_routes,
        export_routes,
        order_routes,
        otlp_routes,
        pseudonym_routes,
        quarantine_routes,
        redaction_routes,
        tenant_routes,
        trajectory_routes,
        vault_routes,
        view_routes,
        watch_routes,
        witness_routes,
    ):
        app.include_router(routes.router)
    app.mount("/console", create_console(services))
    for kind, (status, code) in _STATUS.items():
        app.add_exception_handler(kind, _handler(status, code))
    app.add_exception_handler(RedactionFailed, _redaction_failed)
    app.add_exception_handler(OperationalError, _store_away)
    return app


class _Unbound:
    """A request may see nobody's rows until its caller is known."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with scoped(NOBODY):
            await self._app(scope, receive, send)


async def _health() -> Response:
    return json_answer({"status": "ok"})


def _handler(status: int, code: str) -> Callable[[Request, Exception], Response]:
    def answer(_: Request, error: Exception) -> Response:
        return error_answer(status, code, str(error))

    return answer


def _store_away(request: Request, error: Exception) -> Response:
    cause = error.orig if isinstance(error, OperationalError) else error
    logger.warning("the store does not answer, %s %s is refused: %s", request.method, request.scope["path"], cause)
    return error_answer(503, "store_unavailable", "the store does not answer right now; send the request again in a moment")


def _redaction_failed(_: Request, error: Exception) -> Response:
    reason = error.reason if isinstance(error, RedactionFailed) else "error"
    return error_answer(400, "redaction_failed", f"a text could not be redacted for certain ({reason}); shorten or leave it out")

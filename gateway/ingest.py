"""Events and OpenTelemetry spans of agents, relayed to the data proxy under the caller's key; its answer comes back as it is."""

from fastapi import FastAPI, Request, Response

from gateway.bodies import read_body
from gateway.errors import Refused, UpstreamError
from gateway.headers import agent_headers, credential, header
from gateway.sessions import header_session
from gateway.state import Gateway
from gateway.upstream.fetch import Fetched, fetch
from gateway.upstream.fetch import Request as UpstreamRequest

MAX_BYTES = 8 << 20
"""Largest body, uncompressed: what the data proxy takes."""
_TIMEOUT_S = 30.0
"""Redacting a full batch takes seconds."""


def add_ingest(api: FastAPI, gateway: Gateway) -> None:
    """Add the routes of ``gateway`` to ``api``."""

    @api.post("/v1/events")
    async def events(request: Request) -> Response:
        return await _relay(gateway, request, "/v1/events")

    @api.post("/v1/traces")
    async def traces(request: Request) -> Response:
        return await _relay(gateway, request, "/v1/traces")


async def _relay(gateway: Gateway, request: Request, path: str) -> Response:
    headers, settings = request.scope["headers"], gateway.settings
    caller = credential(headers)
    await gateway.keys.caller(caller)
    length, encoding = header(headers, b"content-length"), header(headers, b"content-encoding")
    max_bytes = min(MAX_BYTES, settings.max_body_bytes)
    body = await read_body(request.receive, length, encoding, max_bytes, settings.body_timeout_s)
    named = request.scope.get("session", "") or header_session(headers).decode("latin-1")
    session = gateway.namer.printable(named).encode() if named else b""
    answer = await _send(gateway, path, caller, session, body, header(headers, b"content-type"))
    response = Response(answer.body, answer.status)
    response.raw_headers += agent_headers(answer.head.headers)
    return response


async def _send(
    gateway: Gateway,
    path: str,
    authorization: bytes,
    session: bytes,
    body: bytes,
    content_type: bytes,
) -> Fetched:
    """What the data proxy says to ``body``. Events are known by their ids, so sending them twice is no harm.

    Raises:
        Refused: 503 while the data proxy is down: nothing is stored, or nothing is known of it.
    """
    forwarded = [(b"authorization", authorization), (b"content-type", content_type)]
    forwarded += [(b"x-headrace-session", session)] if session else []
    try:
        return await fetch(gateway.pool, gateway.dataproxy, UpstreamRequest("POST", path, forwarded, body), _TIMEOUT_S)
    except UpstreamError as error:
        message = "the data proxy does not answer; send the events again shortly, what is stored stays stored"
        raise Refused(503, "dataproxy_unavailable", message, retry_after_s=2) from error

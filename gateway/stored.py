"""Stored answers of the Responses API: retrieve, delete and cancel, relayed to the worker that holds them. Nothing is recorded.

A delete takes the answer out of the engine, so that no call can go on from it; what was recorded of it stays under the tenant's
retention and is erased there.
"""

from fastapi import FastAPI, Request, Response

from gateway.dialects import BY_PATH
from gateway.errors import Refused, UpstreamError
from gateway.headers import agent_headers, credential
from gateway.placement import holder
from gateway.state import Gateway
from gateway.upstream.fetch import Request as UpstreamRequest
from gateway.upstream.fetch import fetch


def add_stored(api: FastAPI, gateway: Gateway) -> None:
    """Add the routes of ``gateway`` to ``api``."""

    for path in BY_PATH:
        api.add_api_route(path, _only_post, methods=["GET", "PUT", "PATCH", "DELETE"], include_in_schema=False)

    @api.get("/v1/responses/{response_id}")
    async def retrieve(request: Request, response_id: str) -> Response:
        if request.query_params.get("stream") == "true":
            message = "a stored response cannot be streamed again; retrieve it without `stream`"
            raise Refused(400, "unsupported_parameter", message, param="stream")
        return await _relay(gateway, request, "GET", response_id, "")

    @api.delete("/v1/responses/{response_id}")
    async def delete(request: Request, response_id: str) -> Response:
        return await _relay(gateway, request, "DELETE", response_id, "")

    @api.post("/v1/responses/{response_id}/cancel")
    async def cancel(request: Request, response_id: str) -> Response:
        return await _relay(gateway, request, "POST", response_id, "/cancel")


async def _only_post() -> Response:
    raise Refused(405, "method_not_allowed", "use POST for this path")


async def _relay(gateway: Gateway, request: Request, method: str, response_id: str, action: str) -> Response:
    identity = await gateway.keys.caller(credential(request.scope["headers"]))
    if identity.pseudonymize:
        message = "answers that the engine keeps hold surrogates; keep what you were sent"
        raise Refused(400, "pseudonyms_need_input", message, param="response_id")
    worker = holder(gateway, identity.tenant, response_id)  # from here on the id is one of ours, safe in a path
    ask = UpstreamRequest(method, f"/v1/responses/{response_id}{action}", [])
    try:
        answer = await fetch(
            gateway.pool, gateway.origins[worker.url], ask, gateway.settings.control_timeout_s, repeatable=method == "GET"
        )
    except UpstreamError as error:
        message = "the worker that holds this response does not answer right now; try again shortly"
        raise Refused(503, "no_worker", message, retry_after_s=2) from error
    response = Response(answer.body, answer.status)
    response.raw_headers += agent_headers(answer.head.headers)
    return response

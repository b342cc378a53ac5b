"""The document: one entry a route, its parameters, bodies, and every status that it can answer with."""

from typing import Any

from gateway.dialects import BY_PATH
from gateway.dialects.forms import ANTHROPIC
from gateway.openapi.schemas import OBJECT, SCHEMAS, STRING, Schema, record, ref

_BODY_STATUSES = (408, 413, 415)
_ENGINE_STATUSES = (400, 404, 422, 429, 500, 502, 503, 504)
_SAYS = {
    400: "The request is malformed; the message says how.",
    401: "No key, or one that is wrong, revoked or expired.",
    403: "The key's role or scope may not do this.",
    404: "No such thing, or none of the caller's.",
    405: "The path serves another method.",
    408: "The body did not arrive in time.",
    409: "The worker comes from the gateway's settings.",
    413: "The body is too large.",
    415: "The body's Content-Encoding is not supported.",
    422: "The engine cannot do what was asked.",
    429: "A limit of the key, or the queue before the workers; Retry-After says when to come back.",
    500: "The engine failed; its own answer.",
    502: "The engine broke off.",
    503: "No worker, no key table, or no journal right now; Retry-After says when to come back.",
    504: "The engine took longer than it may.",
}
_REQUESTS = {
    "/v1/chat/completions": ("Chat completion", "ChatRequest", ("id", "choices")),
    "/v1/completions": ("Text completion", "CompletionRequest", ("id", "choices")),
    "/v1/responses": ("Response (OpenAI Responses)", "ResponsesRequest", ("id", "output")),
    "/v1/messages": ("Message (Anthropic Messages)", "MessagesRequest", ("id", "content")),
    "/v1/messages/count_tokens": ("Count tokens (Anthropic Messages)", "CountTokensRequest", ("input_tokens",)),
    "/v1/embeddings": ("Embeddings", "EmbeddingsRequest", ("data",)),
}


_RECEIPTS: Schema = {"type": "array", "items": ref("Receipt")}


def document(version: str) -> dict[str, Any]:
    """The OpenAPI 3.1 description of a gateway of ``version``."""
    paths: dict[str, Any] = {path: {"post": _hot(path)} for path in BY_PATH}
    paths |= _calls() | _mcp() | _operations() | _fleet()
    session = {"default": "default", "description": "Any name; all calls below it belong to one session."}
    return {
        "openapi": "3.1.0",
        "info": {"title": "Headrace gateway", "version": version},
        "servers": [{"url": "/"}, {"url": "/s/{session}", "variables": {"session": session}}],
        "security": [{"bearer": []}, {"x-api-key": []}],
        "paths": paths,
        "components": {
            "schemas": SCHEMAS,
            "securitySchemes": {
                "bearer": {"type": "http", "scheme": "bearer"},
                "x-api-key": {"type": "apiKey", "in": "header", "name": "x-api-key"},
            },
        },
    }


def _hot(path: str) -> dict[str, Any]:
    summary, request, required = _REQUESTS[path]
    dialect = BY_PATH[path]
    whole: dict[str, Any] = {"application/json": {"schema": record({}, *required)}}
    if dialect.generates:
        whole["text/event-stream"] = {}
    error = "AnthropicError" if dialect.form is ANTHROPIC else "OpenAIError"
    statuses = (401, 403, 405, *_BODY_STATUSES, *_ENGINE_STATUSES)
    return _operation(summary, "agents", {200: whole}, statuses, request=request, error=error)


def _calls() -> dict[str, Any]:
    response_id = [_path_parameter("response_id")]
    feedback = _operation("Reward, label or correct", "agents", {200: _json(OBJECT), 202: _json(OBJECT)},
                          (400, 401, 404, *_BODY_STATUSES, 500, 503), request="Feedback")  # fmt: skip
    stored = (400, 401, 403, 404, 503)
    return {
        "/v1/models": {
            "get": _operation("Models that the key may use", "agents", {200: _json(record({}, "data"))}, (401, 403, 503))
        },
        "/v1/models/{model}": {
            "get": _operation("One model", "agents", {200: _json(record({}, "id"))}, stored, [_path_parameter("model")])
        },
        "/v1/feedback": {"post": feedback},
        "/feedback": {"post": feedback},
        "/v1/events": {"post": _ingest("Record events of other kinds", "EventBatch", record({"receipts": _RECEIPTS}, "receipts"))},
        "/v1/traces": {"post": _traces()},
        "/v1/responses/{response_id}": {
            "get": _operation("A stored response", "agents", {200: _json(OBJECT)}, stored, response_id),
            "delete": _operation("Delete a stored response", "agents", {200: _json(OBJECT)}, stored, response_id),
        },
        "/v1/responses/{response_id}/cancel": {
            "post": _operation("Cancel a stored response", "agents", {200: _json(OBJECT)}, stored, response_id)
        },
    }


def _ingest(summary: str, request: str, answer: Schema) -> dict[str, Any]:
    session = {"name": "x-headrace-session", "in": "header", "schema": {"type": "string", "maxLength": 128}}
    return _operation(
        summary, "agents", {200: _json(answer)}, (400, 401, 403, *_BODY_STATUSES, 500, 503), [session], request=request
    )


def _mcp() -> dict[str, Any]:
    """MCP's streamable HTTP, relayed."""
    either = {**_json(OBJECT), "text/event-stream": {}}
    bad = (400, 401, 403, 404, *_BODY_STATUSES, 500, 502, 503)
    said = {
        "post": "Call an MCP server: tools, resources, …",
        "get": "What an MCP server says by itself",
        "delete": "End a session of an MCP server",
    }
    return {
        "/mcp/{name}": {
            method: _operation(
                summary, "agents", {200: either}, bad, [_path_parameter("name")], request="McpMessage" * (method == "post")
            )
            for method, summary in said.items()
        }
    }


def _traces() -> dict[str, Any]:
    """OTLP/HTTP; the answer has the request's encoding."""
    operation = _ingest("Record GenAI spans of OpenTelemetry (OTLP/HTTP)", "TraceRequest", OBJECT)
    for content in (operation["requestBody"]["content"], operation["responses"]["200"]["content"]):
        content["application/x-protobuf"] = {"schema": {**STRING, "format": "binary"}}
    return operation


def _operations() -> dict[str, Any]:
    ready = record({"keys_loaded": {"type": "boolean"}, "workers": OBJECT, "models": {"type": "array"}}, "workers")
    own = {"name": "process", "in": "query", "schema": {"enum": ["own"]}, "description": "This process's own metrics only."}
    answers: dict[str, tuple[str, dict[int, Any], list[Any]]] = {
        "/health": ("The process lives", {200: _json(OBJECT)}, []),
        "/ready": ("Calls can be served", {200: _json(ready), 503: _json(ready)}, []),
        "/metrics": ("Prometheus metrics of all processes", {200: {"text/plain": {"schema": STRING}}}, [own]),
        "/openapi.json": ("This document", {200: _json(OBJECT)}, []),
    }
    return {
        path: {"get": {**_operation(summary, "operations", good, (), parameters), "security": []}}
        for path, (summary, good, parameters) in answers.items()
    }


def _fleet() -> dict[str, Any]:
    worker_id, denied = [_path_parameter("worker_id")], (401, 403, 503)
    worker, body = {200: _json(ref("Worker"))}, (400, *_BODY_STATUSES)
    listed = record({"workers": {"type": "array", "items": ref("Worker")}}, "workers", "canary_per_mille")
    added = {**worker, 201: _json(ref("Worker"))}
    return {
        "/v1/workers": {
            "get": _operation("Workers", "operator", {200: _json(listed)}, denied),
            "post": _operation("Register or renew a worker", "operator", added, (*denied, *body, 409), request="NewWorker"),
        },
        "/v1/workers/{worker_id}": {
            "delete": _operation("Remove a worker", "operator", {200: _json(OBJECT)}, (*denied, 404, 409), worker_id)
        },
        "/v1/workers/{worker_id}/drain": {
            "post": _operation("No new sessions for a worker", "operator", worker, (*denied, 404), worker_id),
            "delete": _operation("End a drain", "operator", worker, (*denied, 404), worker_id),
        },
        "/v1/workers/{worker_id}/out": {
            "put": _operation("Out of rotation", "operator", worker, (*denied, *body, 404), worker_id, request="Rotation"),
            "delete": _operation("Back in rotation", "operator", worker, (*denied, 404), worker_id),
        },
        "/v1/workers/{worker_id}/proof": {
            "put": _operation("Its weights were compared", "operator", worker, (*denied, *body, 404), worker_id, request="Proof")
        },
        "/v1/workers/{worker_id}/lane": {
            "put": _operation("Move a worker to a lane", "operator", worker, (*denied, *body, 404), worker_id, request="Move")
        },
        "/v1/lanes": {
            "put": _operation(
                "Share of the canary lane, and what lanes serve",
                "operator",
                {200: _json(ref("Lanes"))},
                (*denied, *body),
                request="Lanes",
            )
        },
    }


def _operation(
    summary: str,
    tag: str,
    good: dict[int, Any],
    bad: tuple[int, ...],
    parameters: list[Any] | None = None,
    *,
    request: str = "",
    error: str = "OpenAIError",
) -> dict[str, Any]:
    """``good`` maps a status to its content; ``bad`` statuses come in the form ``error``, or the engine's own."""
    responses = {str(status): {"description": "As asked.", "content": content} for status, content in good.items()}
    for status in sorted(bad):
        form = {"anyOf": [ref(error), ref("EngineError")]} if tag == "agents" else ref(error)
        responses[str(status)] = {"description": _SAYS[status], "content": _json(form)}
    operation: dict[str, Any] = {"summary": summary, "tags": [tag], "parameters": parameters or [], "responses": responses}
    if request:
        operation["requestBody"] = {"required": True, "content": _json(ref(request))}
    return operation


def _json(schema: Schema) -> dict[str, Any]:
    return {"application/json": {"schema": schema}}


def _path_parameter(name: str) -> dict[str, Any]:
    return {"name": name, "in": "path", "required": True, "schema": {"type": "string", "minLength": 1}}

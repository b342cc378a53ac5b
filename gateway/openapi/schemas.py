"""The shapes of bodies, as JSON Schema. Requests list the fields that most agents send; all others pass to the engine."""

from typing import Any

Schema = dict[str, Any]

STRING: Schema = {"type": "string"}
OBJECT: Schema = {"type": "object"}
_TEXT_OR_PARTS: Schema = {"anyOf": [STRING, {"type": "array", "items": OBJECT}]}


def record(properties: dict[str, Schema], *required: str, **more: Any) -> Schema:
    """An object with ``properties``, of which ``required`` must be there; others may be."""
    return {"type": "object", "properties": properties, "required": list(required), **more}


def ref(name: str) -> Schema:
    """A reference to one of ``SCHEMAS``."""
    return {"$ref": f"#/components/schemas/{name}"}


def _request(properties: dict[str, Schema], *required: str) -> Schema:
    common: dict[str, Schema] = {
        "model": {**STRING, "description": "One of GET /v1/models."},
        "stream": {"type": "boolean", "default": False},
        "temperature": {"type": "number", "minimum": 0},
        "top_p": {"type": "number", "exclusiveMinimum": 0, "maximum": 1},
    }
    return record({**common, **properties}, "model", *required)


_MESSAGE = record({"role": {"enum": ["system", "developer", "user", "assistant", "tool"]}, "content": _TEXT_OR_PARTS}, "role")
_TURN = record({"role": {"enum": ["user", "assistant"]}, "content": _TEXT_OR_PARTS}, "role", "content")
_TURNS: Schema = {"type": "array", "items": _TURN, "minItems": 1}
_CODE: Schema = {"type": ["string", "integer", "null"]}
_TOKENS: Schema = {"type": "integer", "minimum": 1}

SCHEMAS: dict[str, Schema] = {
    "OpenAIError": record(
        {
            "error": record(
                {"message": STRING, "type": STRING, "param": {"type": ["string", "null"]}, "code": _CODE},
                "message",
            )
        },
        "error",
    ),
    "EngineError": record({"object": {"const": "error"}, "message": STRING, "type": STRING, "code": _CODE}, "object", "message"),
    "AnthropicError": record(
        {"type": {"const": "error"}, "error": record({"type": STRING, "message": STRING}, "type", "message"), "request_id": STRING},
        "type", "error",
    ),
    "ChatRequest": _request(
        {
            "messages": {"type": "array", "items": _MESSAGE, "minItems": 1},
            "max_tokens": _TOKENS,
            "tools": {"type": "array", "items": OBJECT},
            "response_format": OBJECT,
            "n": {"type": "integer", "minimum": 1, "maximum": 8},
            "metadata": record({"session_id": STRING}),
        },
        "messages",
    ),
    "CompletionRequest": _request({"prompt": STRING, "max_tokens": _TOKENS}, "prompt"),
    "ResponsesRequest": _request(
        {"input": _TEXT_OR_PARTS, "instructions": STRING, "previous_response_id": STRING, "max_output_tokens": _TOKENS}, "input"
    ),
    "MessagesRequest": _request(
        {"messages": _TURNS, "system": _TEXT_OR_PARTS, "max_tokens": _TOKENS},
        "messages", "max_tokens",
    ),
    "CountTokensRequest": record({"model": STRING, "messages": _TURNS}, "model", "messages"),
    "EmbeddingsRequest": record(
        {"model": STRING, "input": {"anyOf": [STRING, {"type": "array", "items": STRING, "minItems": 1}]}}, "model", "input"
    ),
    "Feedback": record(
        {
            "target": {**STRING, "description": "A completion, event, trajectory or session id."},
            "value": {"type": "number"},
            "label": STRING,
            "correction": STRING,
            "name": {**STRING, "default": "reward"},
            "idempotency_key": STRING,
            "choice": {"type": "integer", "minimum": 0, "description": "One answer of a call with n > 1."},
        },
        "target",
    ),
    "EventBatch": record(
        {"events": {"type": "array", "maxItems": 1000, "items": {**OBJECT, "description": "ATDP: `python -m atdp.schema`."}}},
        "events",
    ),
    "McpMessage": record({"jsonrpc": {"const": "2.0"}, "method": STRING, "id": {"type": ["integer", "string"]}}, "jsonrpc"),
    "TraceRequest": record({"resourceSpans": {"type": "array", "items": OBJECT}}, "resourceSpans"),
    "Receipt": record(
        {"event_id": STRING, "status": {"enum": ["stored", "duplicate", "refused"]}, "field": STRING, "reason": STRING},
        "event_id", "status",
    ),
    "NewWorker": record(
        {
            "url": {**STRING, "format": "uri", "description": "Base URL, such as http://10.0.0.7:30000."},
            "lane": {"enum": ["stable", "canary"], "default": "stable"},
            "kind": {"enum": ["sglang", "external"], "default": "sglang"},
            "ttl_s": {"type": ["number", "null"], "exclusiveMinimum": 0, "maximum": 86400},
        },
        "url", additionalProperties=False,
    ),
    "Worker": record(
        {
            "id": STRING, "url": STRING, "lane": STRING, "kind": STRING, "source": {"enum": ["settings", "registered"]},
            "health": {"enum": ["ready", "waiting", "down"]}, "models": {"type": "array", "items": STRING},
            "in_flight": {"type": "integer"}, "elsewhere": {"type": "integer"}, "max_running": {"type": ["integer", "null"]},
            "draining": {"type": "boolean"}, "drained": {"type": "boolean"}, "ejected": {"type": "boolean"},
            "version": {**STRING, "description": "The weights that it says it holds."},
            "proven": {**STRING, "description": "The start of it (`instance`) whose weights were compared with the record."},
            "refusal": {**STRING, "description": "Why it gets no calls although it answers; empty if it may serve."},
            "out": {"anyOf": [ref("Rotation"), {"type": "null"}]},
        },
        "id", "url", "lane", "health", "models", "draining",
    ),
    "Lanes": record(
        {
            "canary_per_mille": {"type": ["integer", "null"], "minimum": 0, "maximum": 1000},
            "versions": {
                "type": "object", "propertyNames": {"enum": ["stable", "canary"]},
                "additionalProperties": {"type": "array", "items": STRING},
            },
        },
        additionalProperties=False,
    ),
    "Move": record({"lane": {"enum": ["stable", "canary"]}}, "lane", additionalProperties=False),
    "Proof": record({"instance": {**STRING, "minLength": 1, "maxLength": 100}}, "instance", additionalProperties=False),
    "Rotation": record(
        {
            "reason": {**STRING, "minLength": 1, "maxLength": 1000}, "until_restart": {"type": "boolean", "default": False},
            "instance": STRING,
        },
        "reason",
    ),
}  # fmt: skip

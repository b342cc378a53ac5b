"""Errors of ours in each dialect's form, as a body and as an event of a stream that has begun."""

from dataclasses import dataclass
from typing import Literal

import msgspec

from gateway.errors import Refused

_OPENAI_TYPES = {401: "authentication_error", 403: "permission_error", 429: "rate_limit_error"}
_ANTHROPIC_TYPES = {
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    503: "overloaded_error",
    504: "timeout_error",
    529: "overloaded_error",
}


class _OpenAIError(msgspec.Struct, frozen=True):
    message: str
    type: str
    param: str | None
    code: str


class _AnthropicError(msgspec.Struct, frozen=True):
    type: str
    message: str


class _AnthropicBody(msgspec.Struct, frozen=True):
    error: _AnthropicError
    request_id: str
    type: Literal["error"] = "error"


@dataclass(slots=True, frozen=True)
class ErrorForm:
    """One form. ``anthropic`` chooses the body's; ``event`` stands before a stream's ``data:``; ``typed`` gives its data OpenAI's
    form of an error event.
    """

    anthropic: bool
    event: bytes = b""
    typed: bool = False

    def body(self, error: Refused, request_id: str) -> bytes:
        """The whole body of an error answer."""
        return _anthropic(error, request_id) if self.anthropic else msgspec.json.encode({"error": _openai(error)})

    def stream_event(self, error: Refused, request_id: str) -> bytes:
        """The event that ends a stream which has begun."""
        data = self.body(error, request_id)
        if self.typed:  # the fields of OpenAI's ``error`` event, and the object that its SDKs raise
            fields = {"type": "error", "code": error.code, "message": error.message, "param": error.param, "error": _openai(error)}
            data = msgspec.json.encode(fields)
        return self.event + b"data: " + data + b"\n\n"


def _openai(error: Refused) -> _OpenAIError:
    kind = _OPENAI_TYPES.get(error.status, "invalid_request_error" if error.status < 500 else "server_error")
    return _OpenAIError(error.message, kind, error.param, error.code)


def _anthropic(error: Refused, request_id: str) -> bytes:
    kind = _ANTHROPIC_TYPES.get(error.status, "invalid_request_error" if error.status < 500 else "api_error")
    return msgspec.json.encode(_AnthropicBody(_AnthropicError(kind, error.message), request_id))


OPENAI = ErrorForm(anthropic=False)
OPENAI_RESPONSES = ErrorForm(anthropic=False, event=b"event: error\n", typed=True)
ANTHROPIC = ErrorForm(anthropic=True, event=b"event: error\n")


def form_of(path: str) -> ErrorForm:
    """The form for errors on ``path``, whether it is served or not."""
    return ANTHROPIC if path.startswith("/v1/messages") else OPENAI

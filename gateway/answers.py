"""The gateway's own answers on raw ASGI: errors in OpenAI's form, with ``x-headrace-error`` and what to do next."""

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

import msgspec

from gateway.errors import Refused
from gateway.upstream.connection import Headers

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

_TYPES = {401: "authentication_error", 403: "permission_error", 429: "rate_limit_error"}


class ErrorBody(msgspec.Struct, frozen=True):
    """OpenAI's error object."""

    message: str
    type: str
    param: str | None
    code: str


def error_body(error: Refused) -> bytes:
    """``{"error": {"message", "type", "param", "code"}}``."""
    kind = _TYPES.get(error.status, "invalid_request_error" if error.status < 500 else "server_error")
    return msgspec.json.encode({"error": ErrorBody(error.message, kind, error.param, error.code)})


def error_event(error: Refused) -> bytes:
    """The same as a server-sent event, for a stream that has begun."""
    return b"data: " + error_body(error) + b"\n\n"


def error_headers(error: Refused) -> Headers:
    """What every error of ours carries beside its body."""
    headers = [(b"content-type", b"application/json"), (b"x-headrace-error", error.code.encode())]
    if error.retry_after_s is not None:
        headers.append((b"retry-after", b"%d" % error.retry_after_s))
    if error.status == 401:
        headers.append((b"www-authenticate", b"Bearer"))
    return headers


async def send_whole(send: Send, status: int, headers: Headers, body: bytes) -> None:
    """A whole answer; ``headers`` must not hold content-length."""
    headers = [*headers, (b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body, "more_body": False})


async def send_error(send: Send, error: Refused, extra: Headers) -> None:
    """``error`` as a whole answer."""
    await send_whole(send, error.status, [*error_headers(error), *extra], error_body(error))

"""What every error of ours carries beside its body, and the types of ASGI."""

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from gateway.errors import Refused
from gateway.upstream.connection import Headers

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]


def error_headers(error: Refused) -> Headers:
    """What every error of ours carries beside its body."""
    headers = [(b"content-type", b"application/json"), (b"x-headrace-error", error.code.encode())]
    if error.retry_after_s is not None:
        headers.append((b"retry-after", b"%d" % error.retry_after_s))
    if error.status == 401:
        headers.append((b"www-authenticate", b"Bearer"))
    return headers

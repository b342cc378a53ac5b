"""Relays feedback to the data proxy's socket under the caller's own key; status and body come back as they are."""

from gateway.errors import Refused, UpstreamError
from gateway.headers import credential
from gateway.state import Gateway
from gateway.upstream.connection import Headers
from gateway.upstream.fetch import Fetched, Request, fetch

_FORWARDED = frozenset((b"content-type", b"idempotency-key"))


async def relay_feedback(gateway: Gateway, headers: Headers, body: bytes) -> Fetched:
    """What the data proxy says to ``body``. It is sent once: a reward without an idempotency key would count twice.

    Raises:
        Refused: 401 or 503 (no table yet), or 503 while the data proxy is down.
    """
    caller = credential(headers)
    await gateway.keys.holder(caller)
    forwarded = [(b"authorization", caller), *(one for one in headers if one[0] in _FORWARDED)]
    request = Request("POST", "/v1/feedback", forwarded, body)
    try:
        return await fetch(gateway.pool, gateway.dataproxy, request, gateway.settings.control_timeout_s, repeatable=False)
    except UpstreamError as error:
        message = "the data proxy does not answer, so the feedback is not kept; send it again shortly"
        raise Refused(503, "dataproxy_unavailable", message, retry_after_s=2) from error

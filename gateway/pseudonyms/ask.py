"""Asks the data proxy for surrogates before a call is placed. Whatever goes wrong refuses the call: no value goes to a model."""

import asyncio

import msgspec

from dataproxy.pseudonym_types import Form, Pseudonymized, ToPseudonymize
from gateway.call import Call
from gateway.errors import Refused, UpstreamError
from gateway.state import Gateway
from gateway.upstream.fetch import Request, fetch

_TIMEOUT_S = 12.0
"""For the wait and the answer; the data proxy gives up by itself after 5 and 5 seconds."""
_NEVER = 422
_decoder = msgspec.msgpack.Decoder(Pseudonymized)


async def pseudonymize(gateway: Gateway, call: Call) -> list[Form]:
    """Put surrogates into the request of ``call``; gives what leads back.

    Raises:
        Refused: 503, it could not be done for certain or in time; 400, it never can be, or the call goes on from an answer that the
            engine keeps, in which there are surrogates of another request.
    """
    if call.dialect.keeps_answers and call.request.text("previous_response_id"):
        message = "with pseudonyms an answer cannot be gone on from by its id; send all items in `input` instead"
        raise Refused(400, "pseudonyms_need_input", message, param="previous_response_id")
    asked = ToPseudonymize(call.identity.tenant, call.session.session_id, call.request.body)
    headers = [(b"authorization", b"Bearer " + gateway.gateway_key.encode())]
    request = Request("POST", "/v1/pseudonyms", headers, msgspec.msgpack.encode(asked))
    try:
        async with asyncio.timeout(_TIMEOUT_S), gateway.pseudonymizing:
            answer = await fetch(gateway.pool, gateway.dataproxy, request, _TIMEOUT_S)
        if answer.status == _NEVER:
            message = "the request holds personal values that no surrogates can stand in for, so it is not sent to a model"
            raise Refused(400, "not_pseudonymizable", message)
        if answer.status != 200:
            raise _refused()
        found = _decoder.decode(answer.body)
    except (UpstreamError, TimeoutError, msgspec.DecodeError) as error:
        raise _refused() from error
    if found.forms:
        call.request = msgspec.structs.replace(call.request, body=found.body)
        call.surrogates = [form.surrogate for form in found.forms]
    return found.forms


def _refused() -> Refused:
    message = "personal values could not be replaced by surrogates, so the request is not sent to a model; try again shortly"
    return Refused(503, "pseudonyms_unavailable", message, retry_after_s=2)
